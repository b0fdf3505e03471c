// SPDX-License-Identifier: MIT
#include "serve/completion_writer.hpp"

#include <algorithm>
#include <ctime>
#include <new>
#include <utility>

#include "serve/generation_fields.hpp"

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kScoredTokens = 256;  // of a prompt, before others have their turn

std::string_view finish_reason(Finish finish, bool has_calls) {
    if (finish == Finish::length || finish == Finish::context) return "length";
    return has_calls ? "tool_calls" : "stop";
}

json usage_of(const std::vector<Generation>& all, std::size_t choices_per_prompt) {
    std::size_t prompt = 0, cached = 0, written = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        written += all[i].tokens.size();
        if (i % choices_per_prompt != 0) continue;  // the others read the same
        prompt += all[i].prompt_tokens;
        cached += all[i].reused_tokens;
    }
    return {{"prompt_tokens", prompt},
            {"completion_tokens", written},
            {"total_tokens", prompt + written},
            {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

json describe_call(const ToolCall& call) {
    return {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

}  // namespace

CompletionWriter::CompletionWriter(const Call& call, const CompletionRequest& request, WorkThread& thread)
    : thread_(request.options.log_probs ? &thread : nullptr),
      call_(call),
      stream_(call),
      is_chat_(request.is_chat),
      has_usage_(request.has_usage),
      choices_per_prompt_(request.choices),
      echoed_(request.echoed),
      head_({{"id", new_id(request.is_chat ? "chatcmpl-" : "cmpl-")},
             {"created", std::time(nullptr)},
             {"model", request.name}}) {
    const auto spellings = std::make_shared<TokenSpellings>(*request.model);
    for (std::size_t i = 0; i < request.prompts.size() * request.choices; ++i) {
        choices_.push_back({.reader = AnswerReader(request.tools, request.streams, "call_"), .scores = {}});
        choices_.back().first_token = request.prompts[i / request.choices].front();
        if (request.options.log_probs) choices_.back().scores.emplace(spellings, request.is_chat, request.options);
    }
}

/// Does it here, or behind what is left of this answer on the thread; there nothing is done for who has gone.
template <class Work>
void CompletionWriter::later(Work work) {
    if (!thread_) return work();
    thread_->give(this, [self = shared_from_this(), work = std::move(work)] {
        try {
            if (!self->is_gone_ && !self->call_.exchange().write({})) self->is_gone_ = true;
            if (!self->is_gone_) work();
        } catch (const std::bad_alloc&) {
            self->give_up();
        }
    });
}

void CompletionWriter::score_prompt(std::size_t prompt, std::span<const StepLogProbs> log_probs) {
    if (!thread_) return;
    const std::size_t first = prompt * choices_per_prompt_;
    later([this, first] { choices_[first].scores->echo(choices_[first].first_token); });
    while (!log_probs.empty()) {
        const auto piece = log_probs.first(std::min(log_probs.size(), kScoredTokens));
        log_probs = log_probs.subspan(piece.size());
        later([this, first, steps = std::vector(piece.begin(), piece.end())] {
            choices_[first].scores->echo(std::span(steps));
        });
    }
    later([this, first] {
        choices_[first].scores->echoed(prompt_of(first));
        for (std::size_t i = first + 1; i < first + choices_per_prompt_; ++i)
            choices_[i].scores = choices_[first].scores;
    });
}

bool CompletionWriter::read(std::size_t index, std::string_view text) {
    choices_[index].reader.push(text);
    return !is_gone_ && !choices_[index].reader.is_enough();
}

void CompletionWriter::reply(std::vector<Generation> all) {
    later([this, all = std::move(all)] {
        json body = head_;
        body["object"] = is_chat_ ? "chat.completion" : "text_completion";
        body["choices"] = json::array();
        for (std::size_t i = 0; i < all.size(); ++i) body["choices"].push_back(whole(i, all[i]));
        body["usage"] = usage_of(all, choices_per_prompt_);
        call_.reply(body);
    });
}

bool CompletionWriter::piece(std::size_t index, std::string_view text) {
    Choice& choice = choices_[index];
    const auto parts = is_chat_ ? choice.reader.push(text) : std::vector<AnswerPart>();
    later([this, index, text = std::string(text), deltas = deltas_of(index, parts), steps = take_steps(index)] {
        begin();
        echo(index);
        said(index, steps, text, steps.empty());
        if (is_chat_) return write(index, deltas);
        write(text.empty() ? std::string() : chunk(index, {}, text, nullptr));
    });
    return !is_gone_ && !choice.reader.is_enough();
}

void CompletionWriter::end(std::size_t index, Finish finish) {
    Choice& choice = choices_[index];
    const auto parts = is_chat_ ? choice.reader.finish() : std::vector<AnswerPart>();
    const bool has_calls = choice.reader.has_whole_calls();
    later([this, index, finish, has_calls, deltas = deltas_of(index, parts), steps = take_steps(index)] {
        begin();
        echo(index);
        said(index, steps, "", true);
        if (is_chat_) write(index, deltas);
        if (auto& scores = choices_[index].scores) scores->end(finish);
        write(chunk(index, json::object(), "", finish_reason(finish, has_calls)));
    });
}

void CompletionWriter::all_ended(std::vector<Generation> all) {
    later([this, all = std::move(all)] {
        std::string events;
        if (has_usage_) {
            json last = chunk_head();
            last["choices"] = json::array();
            last["usage"] = usage_of(all, choices_per_prompt_);
            events = event(last);
        }
        stream_.end(events + "data: [DONE]\n\n");
    });
}

void CompletionWriter::fail(const Refusal& refusal) {
    later([this, refusal] { stream_.fail(refusal); });
}

/// Does not throw: where there is no memory to say so either, the time for the request ends it.
void CompletionWriter::give_up() noexcept {
    is_gone_ = true;
    try {
        stream_.fail({503, "there is not enough memory for this request now"});
    } catch (const std::bad_alloc&) {
    }
}

std::vector<StepLogProbs> CompletionWriter::take_steps(std::size_t index) {
    return std::exchange(choices_[index].steps, {});
}

void CompletionWriter::said(std::size_t index, std::span<const StepLogProbs> steps, std::string_view text,
                            bool is_last) {
    auto& scores = choices_[index].scores;
    if (!scores) return;
    for (const StepLogProbs& step : steps) scores->push(step);
    scores->said(text, is_last);
}

void CompletionWriter::write(std::string events) {
    if (!stream_.write(std::move(events))) is_gone_ = true;
}

/// What the answer begins with: the prompt, or nothing.
std::string_view CompletionWriter::prompt_of(std::size_t index) const {
    return echoed_.empty() ? std::string_view() : echoed_[index / choices_per_prompt_];
}

void CompletionWriter::echo(std::size_t index) {
    if (echoed_.empty() || std::exchange(choices_[index].is_echoed, true)) return;
    if (!stream_.write_asked(chunk(index, {}, prompt_of(index), nullptr))) is_gone_ = true;
}

json CompletionWriter::whole(std::size_t index, const Generation& generation) {
    AnswerReader& reader = choices_[index].reader;
    auto& scores = choices_[index].scores;
    reader.finish();
    said(index, take_steps(index), generation.text, true);
    if (scores) scores->end(generation.finish);
    json choice = {{"index", index},
                   {"finish_reason", finish_reason(generation.finish, reader.has_whole_calls())},
                   {"logprobs", take_scores(index)}};
    if (!is_chat_) {
        choice["text"] = std::string(prompt_of(index)) + generation.text;
        return choice;
    }
    json message = {{"role", "assistant"}, {"content", reader.content()}, {"refusal", nullptr}};
    if (!reader.calls().empty()) {
        if (reader.content().empty()) message["content"] = nullptr;
        for (const ToolCall& call : reader.calls()) message["tool_calls"].push_back(describe_call(call));
    }
    choice["message"] = std::move(message);
    return choice;
}

json CompletionWriter::take_scores(std::size_t index) {
    if (!choices_[index].scores) return nullptr;
    json scores = choices_[index].scores->take();
    if (!is_chat_ || scores.is_null()) return scores;
    return {{"content", std::move(scores)}, {"refusal", nullptr}};
}

/// The roles.
void CompletionWriter::begin() {
    if (std::exchange(has_begun_, true) || !is_chat_) return;
    std::string events;
    for (std::size_t i = 0; i < choices_.size(); ++i)
        events += chunk(i, {{"role", "assistant"}, {"content", ""}}, "", nullptr);
    write(std::move(events));
}

void CompletionWriter::write(std::size_t index, const std::vector<json>& deltas) {
    std::string events;
    for (const json& delta : deltas) events += chunk(index, delta, "", nullptr);
    write(std::move(events));
}

std::vector<json> CompletionWriter::deltas_of(std::size_t index, const std::vector<AnswerPart>& parts) const {
    std::vector<json> deltas;
    for (const AnswerPart& part : parts)
        if (part.kind != AnswerPart::Kind::call_end) deltas.push_back(delta(index, part));
    return deltas;
}

json CompletionWriter::delta(std::size_t index, const AnswerPart& part) const {
    if (part.kind == AnswerPart::Kind::content) return {{"content", part.text}};
    json call = {{"index", part.call}, {"function", {{"arguments", part.text}}}};
    if (part.kind == AnswerPart::Kind::call) {
        call = describe_call({.id = choices_[index].reader.calls()[part.call].id, .name = part.text, .arguments = {}});
        call["index"] = part.call;
    }
    return {{"tool_calls", json::array({std::move(call)})}};
}

json CompletionWriter::chunk_head() const {
    json body = head_;
    body["object"] = is_chat_ ? "chat.completion.chunk" : "text_completion";
    return body;
}

std::string CompletionWriter::chunk(std::size_t index, const json& delta, std::string_view text, const json& finish) {
    json body = chunk_head();
    json choice = {{"index", index}, {"finish_reason", finish}, {"logprobs", take_scores(index)}};
    if (is_chat_)
        choice["delta"] = delta;
    else
        choice["text"] = text;
    body["choices"] = json::array({std::move(choice)});
    if (has_usage_) body["usage"] = nullptr;
    return event(body);
}

}  // namespace vkformer::serve
