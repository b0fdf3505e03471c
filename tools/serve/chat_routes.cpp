// SPDX-License-Identifier: MIT
#include "serve/chat_routes.hpp"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "serve/answer_reader.hpp"
#include "serve/constraint_fields.hpp"
#include "serve/fields.hpp"
#include "serve/generation.hpp"
#include "serve/generation_fields.hpp"
#include "serve/sse.hpp"
#include "serve/token_scores.hpp"
#include "serve/tools.hpp"

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kMostChoices = 16, kMostStops = 16, kMostPrompts = 64;
constexpr std::size_t kScoredTokens = 256;  // of a prompt, before others have their turn
constexpr std::int64_t kMostTokens = 1 << 24, kMostLogProbs = 20;
constexpr std::int64_t kCompletionTokens = 16;  // where nothing is said, as in OpenAI's API

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

/// What both routes are asked.
struct Wanted {
    bool is_chat = true;
    TextModel* model = nullptr;
    std::string name{};  // as the client called it
    std::vector<std::vector<std::int32_t>> prompts;
    std::vector<std::string> echoed;  // texts of the prompts; empty: they are not part of the answers
    bool is_prompt_alone = false;     // nothing is generated: a prompt's choices are alike
    GenerateOptions options;
    Tools tools;
    std::size_t choices = 1;
    bool streams = false, has_usage = false;

    std::size_t requests_per_prompt() const noexcept { return is_prompt_alone ? 1 : choices; }
    /// A prompt's tokens are asked about once, whatever comes of it.
    std::vector<GenerationRequest> requests() const {
        std::vector<GenerationRequest> all;
        for (const auto& prompt : prompts)
            for (std::size_t i = 0; i < requests_per_prompt(); ++i) {
                all.push_back({.prompt = prompt, .options = options, .is_prompt_alone = is_prompt_alone});
                all.back().options.seed += i;
                if (i == 0 && !echoed.empty()) all.back().prompt_log_probs = options.log_probs;
            }
        return all;
    }
};

void refuse_what_is_not_done(Fields& fields) { fields.only("modalities", json{"text"}, "only text is written"); }

void read_stream(Fields& fields, Wanted& wanted) {
    wanted.streams = fields.boolean("stream").value_or(false);
    const json* const options = fields.take("stream_options");
    if (!options) return;
    if (!wanted.streams) fields.refuse("stream_options", "it is for \"stream\": true");
    Fields stream(*options, "stream_options");
    wanted.has_usage = stream.boolean("include_usage").value_or(false);
    stream.pass_over({"include_obfuscation"});
    stream.finish();
}

void read_asked(Fields& fields, const ModelSet& models, const Call& call, Wanted& wanted) {
    AskedModel<TextModel> asked = read_model<TextModel>(fields, models, call);
    wanted.options = read_sampling(fields, 2);
    wanted.options.adapters = read_adapters(fields, asked);
    wanted.model = asked.model;
    wanted.name = std::move(asked.name);
}

void read_common(Fields& fields, Wanted& wanted) {
    wanted.options.constraint = read_constraint(fields);
    wanted.options.stop = fields.texts("stop", kMostStops);
    if (std::ranges::any_of(wanted.options.stop, &std::string::empty))
        fields.refuse("stop", "an empty text ends nothing");
    wanted.choices = static_cast<std::size_t>(fields.integer("n", 1, kMostChoices).value_or(1));
    read_stream(fields, wanted);
    refuse_what_is_not_done(fields);
    pass_over_bookkeeping(fields);
    fields.pass_over({"store"});
}

void read_log_probs(Fields& fields, GenerateOptions& options) {
    const bool is_wanted = fields.boolean("logprobs").value_or(false);
    const auto likeliest = fields.integer("top_logprobs", 0, kMostLogProbs);
    if (likeliest && !is_wanted) fields.refuse("top_logprobs", "it is for \"logprobs\": true");
    if (is_wanted) options.log_probs = static_cast<std::uint32_t>(likeliest.value_or(0));
}

/// The names are vLLM's.
PromptOptions read_prompt_options(Fields& fields, const Talk& talk) {
    PromptOptions options;
    options.continues_last = fields.boolean("continue_final_message").value_or(false);
    if (options.continues_last && !talk.ends_with_assistant())
        fields.refuse("continue_final_message", "the last message is not the assistant's");
    if (fields.boolean("add_generation_prompt").value_or(!options.continues_last) == options.continues_last)
        fields.refuse("add_generation_prompt",
                      "it is the other of continue_final_message: an answer begins, or goes on");
    if (const json* const given = fields.take("chat_template_kwargs")) {
        if (!given->is_object()) fields.refuse("chat_template_kwargs", "it is no JSON object");
        for (const char* const name : {"messages", "add_generation_prompt"})
            if (given->contains(name))
                fields.refuse("chat_template_kwargs",
                              std::string("it has \"") + name + "\", which the request says itself");
        options.variables = *given;
    }
    return options;
}

Wanted read_chat(const ModelSet& models, const Call& call) {
    const json body = parse_body(call.request());
    Fields fields(body);
    Wanted wanted;
    read_asked(fields, models, call, wanted);
    if (!wanted.model->engine().has_chat_template())
        fields.refuse("messages",
                      "the model has no chat template: it continues "
                      "texts, at /v1/completions");
    const Talk talk = read_messages(fields);
    wanted.tools = read_tools(fields, false);
    read_common(fields, wanted);
    read_log_probs(fields, wanted.options);
    const auto most = fields.integer("max_completion_tokens", 1, kMostTokens),
               older = fields.integer("max_tokens", 1, kMostTokens);
    if (most && older && *most != *older)
        fields.refuse("max_tokens", "it is another number than max_completion_tokens");
    wanted.options.max_tokens = static_cast<std::uint32_t>(most.value_or(older.value_or(0)));
    const PromptOptions prompt = read_prompt_options(fields, talk);
    fields.finish();
    wanted.prompts.push_back(make_prompt(fields, *wanted.model, talk, wanted.tools, wanted.options, prompt));
    if (wanted.prompts.back().empty())
        fields.refuse("messages", "what the model's chat template makes of them has no tokens");
    return wanted;
}

template <class T>
T value_of(Result<T> result) {
    if (!result) throw told(result.error());
    return *std::move(result);
}

bool is_tokens(const json& list) {
    return list.is_array() && !list.empty() && std::ranges::all_of(list, [](const json& item) {
               return item.is_number_integer() && item >= 0 && item <= INT32_MAX;
           });
}

/// A text, tokens, or a list of either. `echoes`: as texts, too, of which the special tokens of those that are given as tokens are no part.
void read_prompts(Fields& fields, Wanted& wanted, bool echoes) {
    const json& given = fields.needed("prompt");
    const json list = given.is_string() || is_tokens(given) ? json::array({given}) : given;
    if (!list.is_array() || list.empty() || list.size() > kMostPrompts)
        fields.refuse("prompt", "it is no text, no list of token ids, and no list of 1 to " +
                                    std::to_string(kMostPrompts) + " of these");
    for (const json& prompt : list) {
        const bool has_tokens = is_tokens(prompt);
        if (!has_tokens && !prompt.is_string())
            fields.refuse("prompt", "it has what is neither a text nor a list of token ids");
        const GenerationEngine& engine = wanted.model->engine();
        wanted.prompts.push_back(has_tokens ? prompt.get<std::vector<std::int32_t>>()
                                            : value_of(engine.tokenize(prompt.get_ref<const std::string&>())));
        if (wanted.prompts.back().empty())
            fields.refuse("prompt", "text " + std::to_string(wanted.prompts.size()) + " has no tokens");
        if (!echoes) continue;
        wanted.echoed.push_back(has_tokens ? value_of(engine.detokenize(wanted.prompts.back()))
                                           : prompt.get<std::string>());
    }
}

Wanted read_completion(const ModelSet& models, const Call& call) {
    const json body = parse_body(call.request());
    Fields fields(body);
    Wanted wanted{.is_chat = false};
    read_asked(fields, models, call, wanted);
    const bool echoes = fields.boolean("echo").value_or(false);
    read_prompts(fields, wanted, echoes);
    read_common(fields, wanted);
    if (const auto likeliest = fields.integer("logprobs", 0, kMostLogProbs))
        wanted.options.log_probs = static_cast<std::uint32_t>(*likeliest);
    fields.only("suffix", "", "nothing is put before a suffix");
    fields.only("best_of", wanted.choices, "there are as many as are given back, n");
    wanted.options.max_tokens = static_cast<std::uint32_t>(
        fields.integer("max_tokens", echoes ? 0 : 1, kMostTokens).value_or(kCompletionTokens));
    wanted.is_prompt_alone = wanted.options.max_tokens == 0;
    if (wanted.is_prompt_alone && wanted.options.constraint)
        fields.refuse("max_tokens", "with 0 nothing is generated, so the answer can have no form");
    fields.finish();
    const std::uint32_t context = wanted.model->engine().context();
    for (const auto& prompt : wanted.prompts)
        if (prompt.size() > context)
            fields.refuse("prompt", "it has " + std::to_string(prompt.size()) + " tokens, the context holds " +
                                        std::to_string(context));
    if (wanted.prompts.size() * wanted.choices > kMostPrompts)
        fields.refuse("n", "with the prompts these are more than " + std::to_string(kMostPrompts) + " texts");
    return wanted;
}

json describe_call(const ToolCall& call) {
    return {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

/// Writes both routes' answers. Those with log-probabilities, lists as long as the prompt with numbers for twenty others of each token,
/// are written on `thread`, since the engine's would keep all its other sequences waiting for them.
class Writer : public std::enable_shared_from_this<Writer> {
public:
    Writer(const Call& call, const Wanted& wanted, WorkThread& thread)
        : thread_(wanted.options.log_probs ? &thread : nullptr),
          call_(call),
          stream_(call),
          is_chat_(wanted.is_chat),
          has_usage_(wanted.has_usage),
          choices_per_prompt_(wanted.choices),
          echoed_(wanted.echoed),
          head_({{"id", new_id(wanted.is_chat ? "chatcmpl-" : "cmpl-")},
                 {"created", std::time(nullptr)},
                 {"model", wanted.name}}) {
        const auto spellings = std::make_shared<TokenSpellings>(*wanted.model);
        for (std::size_t i = 0; i < wanted.prompts.size() * wanted.choices; ++i) {
            choices_.push_back({.reader = AnswerReader(wanted.tools, wanted.streams, "call_"), .scores = {}});
            choices_.back().first_token = wanted.prompts[i / wanted.choices].front();
            if (wanted.options.log_probs) choices_.back().scores.emplace(spellings, wanted.is_chat, wanted.options);
        }
    }

    // All on the engine's thread, or on the one thread that is left where it has nothing to do.
    /// Of all the prompt's choices, before anything of theirs.
    void score_prompt(std::size_t prompt, std::span<const StepLogProbs> log_probs) {
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
    void score(std::size_t index, const StepLogProbs& log_probs) { choices_[index].steps.push_back(log_probs); }
    /// Of an answer that is not streamed; false: it is complete.
    bool read(std::size_t index, std::string_view text) {
        choices_[index].reader.push(text);
        return !is_gone_ && !choices_[index].reader.is_enough();
    }
    void reply(std::vector<Generation> all) {
        later([this, all = std::move(all)] {
            json body = head_;
            body["object"] = is_chat_ ? "chat.completion" : "text_completion";
            body["choices"] = json::array();
            for (std::size_t i = 0; i < all.size(); ++i) body["choices"].push_back(whole(i, all[i]));
            body["usage"] = usage_of(all, choices_per_prompt_);
            call_.reply(body);
        });
    }

    /// False: nobody reads it, or the answer is complete.
    bool piece(std::size_t index, std::string_view text) {
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
    void end(std::size_t index, Finish finish) {
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
    void all_ended(std::vector<Generation> all) {
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
    void fail(const Refusal& refusal) {
        later([this, refusal] { stream_.fail(refusal); });
    }

private:
    struct Choice {
        AnswerReader reader;              // of the engine's thread
        std::vector<StepLogProbs> steps;  // the same: told since the last piece
        std::optional<TokenScores> scores;
        std::int32_t first_token = 0;  // of the prompt
        bool is_echoed = false;        // the prompt has been streamed
    };

    /// Does it here, or behind what is left of this answer on the thread; there nothing is done for who has gone.
    template <class Work>
    void later(Work work) {
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
    /// Does not throw: where there is no memory to say so either, the time for the request ends it.
    void give_up() noexcept {
        is_gone_ = true;
        try {
            stream_.fail({503, "there is not enough memory for this request now"});
        } catch (const std::bad_alloc&) {
        }
    }
    std::vector<StepLogProbs> take_steps(std::size_t index) { return std::exchange(choices_[index].steps, {}); }
    void said(std::size_t index, std::span<const StepLogProbs> steps, std::string_view text, bool is_last) {
        auto& scores = choices_[index].scores;
        if (!scores) return;
        for (const StepLogProbs& step : steps) scores->push(step);
        scores->said(text, is_last);
    }
    void write(std::string events) {
        if (!stream_.write(std::move(events))) is_gone_ = true;
    }

    /// What the answer begins with: the prompt, or nothing.
    std::string_view prompt_of(std::size_t index) const {
        return echoed_.empty() ? std::string_view() : echoed_[index / choices_per_prompt_];
    }
    void echo(std::size_t index) {
        if (echoed_.empty() || std::exchange(choices_[index].is_echoed, true)) return;
        if (!stream_.write_asked(chunk(index, {}, prompt_of(index), nullptr))) is_gone_ = true;
    }

    json whole(std::size_t index, const Generation& generation) {
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
    json take_scores(std::size_t index) {
        if (!choices_[index].scores) return nullptr;
        json scores = choices_[index].scores->take();
        if (!is_chat_ || scores.is_null()) return scores;
        return {{"content", std::move(scores)}, {"refusal", nullptr}};
    }
    /// The roles.
    void begin() {
        if (std::exchange(has_begun_, true) || !is_chat_) return;
        std::string events;
        for (std::size_t i = 0; i < choices_.size(); ++i)
            events += chunk(i, {{"role", "assistant"}, {"content", ""}}, "", nullptr);
        write(std::move(events));
    }
    void write(std::size_t index, const std::vector<json>& deltas) {
        std::string events;
        for (const json& delta : deltas) events += chunk(index, delta, "", nullptr);
        write(std::move(events));
    }
    std::vector<json> deltas_of(std::size_t index, const std::vector<AnswerPart>& parts) const {
        std::vector<json> deltas;
        for (const AnswerPart& part : parts)
            if (part.kind != AnswerPart::Kind::call_end) deltas.push_back(delta(index, part));
        return deltas;
    }
    json delta(std::size_t index, const AnswerPart& part) const {
        if (part.kind == AnswerPart::Kind::content) return {{"content", part.text}};
        json call = {{"index", part.call}, {"function", {{"arguments", part.text}}}};
        if (part.kind == AnswerPart::Kind::call) {
            call =
                describe_call({.id = choices_[index].reader.calls()[part.call].id, .name = part.text, .arguments = {}});
            call["index"] = part.call;
        }
        return {{"tool_calls", json::array({std::move(call)})}};
    }
    json chunk_head() const {
        json body = head_;
        body["object"] = is_chat_ ? "chat.completion.chunk" : "text_completion";
        return body;
    }
    std::string chunk(std::size_t index, const json& delta, std::string_view text, const json& finish) {
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

    WorkThread* thread_;  // nullptr: the engine's
    Call call_;
    EventStream stream_;
    std::atomic<bool> is_gone_{false};  // nobody reads the answer, or it has failed
    bool is_chat_, has_usage_;
    std::size_t choices_per_prompt_;
    std::vector<std::string> echoed_;  // as of Wanted
    json head_;
    std::vector<Choice> choices_;
    bool has_begun_ = false;
};

/// What is answered where the prompts are all that is wanted: the engine has nothing to do.
void repeat_prompts(const Wanted& wanted, Writer& writer) {
    std::vector<Generation> all(wanted.prompts.size() * wanted.choices);
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].finish = Finish::length;
        all[i].prompt_tokens = static_cast<std::uint32_t>(wanted.prompts[i / wanted.choices].size());
        if (wanted.streams) writer.end(i, all[i].finish);
    }
    if (wanted.streams)
        writer.all_ended(all);
    else
        writer.reply(all);
}

/// Each as often as it stands for a choice.
std::vector<Generation> repeated(const std::vector<Generation>& all, std::size_t times) {
    std::vector<Generation> choices;
    for (const Generation& one : all) choices.insert(choices.end(), times, one);
    return choices;
}

void run(const Call& call, const Wanted& wanted, WorkThread& thread) {
    const auto writer = std::make_shared<Writer>(call, wanted, thread);
    if (wanted.is_prompt_alone && !wanted.options.log_probs) return repeat_prompts(wanted, *writer);
    const std::size_t per_prompt = wanted.requests_per_prompt(), times = wanted.choices / per_prompt;
    GenerationSteps steps{.on_error = [writer](const Refusal& refusal) { writer->fail(refusal); }};
    std::vector<GenerationRequest> requests = wanted.requests();
    steps.on_prompt = [writer, per_prompt](std::size_t index, std::span<const StepLogProbs> prompt) {
        writer->score_prompt(index / per_prompt, prompt);
    };
    if (wanted.options.log_probs)
        steps.on_log_probs = [writer](std::size_t index, const StepLogProbs& step) { writer->score(index, step); };
    if (wanted.streams) {
        steps.on_text = [writer](std::size_t index, std::string_view text) { return writer->piece(index, text); };
        steps.on_end = [writer, times](std::size_t index, const Generation& generation) {
            for (std::size_t i = 0; i < times; ++i) writer->end(index * times + i, generation.finish);
        };
        steps.on_all = [writer, times](const std::vector<Generation>& all) { writer->all_ended(repeated(all, times)); };
    } else {
        steps.on_text = [writer](std::size_t index, std::string_view text) { return writer->read(index, text); };
        steps.on_all = [writer, times](const std::vector<Generation>& all) { writer->reply(repeated(all, times)); };
    }
    generate(*wanted.model, call, std::move(requests), std::move(steps), per_prompt);
}

}  // namespace

std::vector<Route> chat_routes(const ModelSet& models, const Limits& limits, WorkThread& thread) {
    const auto route = [&](std::string_view path, std::string_view summary,
                           Wanted (*read)(const ModelSet&, const Call&)) {
        return Route{.method = "POST",
                     .path = path,
                     .body_bytes = limits.body_bytes,
                     .is_work = true,
                     .summary = summary,
                     .gives = {"application/json", "text/event-stream"},
                     .answer = [&models, &thread, read](const Call& call) { run(call, read(models, call), thread); }};
    };
    return {route("/v1/chat/completions", "The answer to a conversation, as OpenAI's API has it", read_chat),
            route("/v1/completions", "Texts continued, as OpenAI's API has it", read_completion)};
}

}  // namespace vkformer::serve
