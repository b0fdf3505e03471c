// SPDX-License-Identifier: MIT
#include "serve/chat_routes.hpp"

#include <algorithm>
#include <ctime>
#include <memory>

#include "serve/fields.hpp"
#include "serve/generation.hpp"
#include "serve/generation_fields.hpp"
#include "serve/sse.hpp"

namespace vkformer::serve {
namespace {

using nlohmann::json;

constexpr std::size_t kMostChoices = 16, kMostStops = 16, kMostPrompts = 64;
constexpr std::int64_t kMostTokens = 1 << 24;
constexpr std::int64_t kCompletionTokens = 16;  // where nothing is said, as in OpenAI's API

std::string_view finish_reason(Finish finish) {
    return finish == Finish::length || finish == Finish::context ? "length" : "stop";
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
    std::vector<std::vector<std::int32_t>> prompts;
    GenerateOptions options;
    std::size_t choices = 1;
    bool streams = false, has_usage = false;

    std::vector<GenerationRequest> requests() const {
        std::vector<GenerationRequest> all;
        for (const auto& prompt : prompts)
            for (std::size_t i = 0; i < choices; ++i) {
                all.push_back({prompt, options});
                all.back().options.seed += i;
            }
        return all;
    }
};

void refuse_what_is_not_done(Fields& fields) {
    fields.only("top_logprobs", 0, "log-probabilities are not given");
    fields.only("tools", json::array(), "tools are not supported");
    fields.only("functions", json::array(), "functions are not supported");
    if (const json* const choice = fields.take("tool_choice"); choice && *choice != "none" && *choice != "auto")
        fields.refuse("tool_choice", "tools are not supported");
    if (const json* const format = fields.take("response_format"); format && *format != json{{"type", "text"}})
        fields.refuse("response_format", "only {\"type\": \"text\"} is supported");
    fields.only("modalities", json{"text"}, "only text is written");
}

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

void read_common(Fields& fields, Wanted& wanted) {
    wanted.options = read_sampling(fields, 2);
    wanted.options.stop = fields.texts("stop", kMostStops);
    if (std::ranges::any_of(wanted.options.stop, &std::string::empty))
        fields.refuse("stop", "an empty text ends nothing");
    wanted.choices = static_cast<std::size_t>(fields.integer("n", 1, kMostChoices).value_or(1));
    read_stream(fields, wanted);
    refuse_what_is_not_done(fields);
    pass_over_bookkeeping(fields);
}

std::vector<Message> read_messages(Fields& fields) {
    const json& given = fields.needed("messages");
    if (!given.is_array() || given.empty()) fields.refuse("messages", "it is no list of messages");
    std::vector<Message> messages;
    for (std::size_t i = 0; i < given.size(); ++i) {
        Fields message(given[i], "messages[" + std::to_string(i) + "]");
        std::string role = message.needed_text("role");
        if (role == "developer") role = "system";  // the name that OpenAI's newer models have for it
        if (role != "system" && role != "user" && role != "assistant")
            message.refuse("role", "it is none of system, developer, user, assistant");
        messages.push_back({role, read_content(message, "content", {"text"})});
        message.only("tool_calls", json::array(), "tools are not supported");
        message.only("annotations", json::array(), "they are not read");
        message.finish();
    }
    return messages;
}

Wanted read_chat(const ModelSet& models, const json& body) {
    Fields fields(body);
    Wanted wanted;
    wanted.model = &models.get<TextModel>(fields.text("model"));
    if (!wanted.model->engine().has_chat_template())
        fields.refuse("messages",
                      "the model has no chat template: it continues "
                      "texts, at /v1/completions");
    const std::vector<Message> messages = read_messages(fields);
    read_common(fields, wanted);
    fields.only("logprobs", false, "log-probabilities are not given");
    const auto most = fields.integer("max_completion_tokens", 1, kMostTokens),
               older = fields.integer("max_tokens", 1, kMostTokens);
    if (most && older && *most != *older)
        fields.refuse("max_tokens", "it is another number than max_completion_tokens");
    wanted.options.max_tokens = static_cast<std::uint32_t>(most.value_or(older.value_or(0)));
    fields.finish();
    auto tokens = wanted.model->engine().tokenize_chat(messages);
    if (!tokens) throw told(tokens.error());
    wanted.prompts.push_back(*std::move(tokens));
    return wanted;
}

bool is_tokens(const json& list) {
    return list.is_array() && !list.empty() && std::ranges::all_of(list, [](const json& item) {
               return item.is_number_integer() && item >= 0 && item <= INT32_MAX;
           });
}

/// A text, tokens, or a list of either.
void read_prompts(Fields& fields, Wanted& wanted) {
    const json& given = fields.needed("prompt");
    const json list = given.is_string() || is_tokens(given) ? json::array({given}) : given;
    if (!list.is_array() || list.empty() || list.size() > kMostPrompts)
        fields.refuse("prompt", "it is no text, no list of token ids, and no list of 1 to " +
                                    std::to_string(kMostPrompts) + " of these");
    for (const json& prompt : list) {
        if (is_tokens(prompt)) {
            wanted.prompts.push_back(prompt.get<std::vector<std::int32_t>>());
            continue;
        }
        if (!prompt.is_string()) fields.refuse("prompt", "it has what is neither a text nor a list of token ids");
        auto tokens = wanted.model->engine().tokenize(prompt.get_ref<const std::string&>());
        if (!tokens) throw told(tokens.error());
        wanted.prompts.push_back(*std::move(tokens));
    }
}

Wanted read_completion(const ModelSet& models, const json& body) {
    Fields fields(body);
    Wanted wanted{.is_chat = false};
    wanted.model = &models.get<TextModel>(fields.text("model"));
    read_prompts(fields, wanted);
    read_common(fields, wanted);
    fields.only("logprobs", false, "log-probabilities are not given");
    fields.only("echo", false, "the prompt is not repeated");
    fields.only("suffix", "", "nothing is put before a suffix");
    fields.only("best_of", wanted.choices, "there are as many as are given back, n");
    wanted.options.max_tokens =
        static_cast<std::uint32_t>(fields.integer("max_tokens", 1, kMostTokens).value_or(kCompletionTokens));
    fields.finish();
    if (wanted.prompts.size() * wanted.choices > kMostPrompts)
        fields.refuse("n", "with the prompts these are more than " + std::to_string(kMostPrompts) + " texts");
    return wanted;
}

/// Writes both routes' answers.
class Writer {
public:
    Writer(const Call& call, const Wanted& wanted)
        : call_(call),
          stream_(call),
          is_chat_(wanted.is_chat),
          has_usage_(wanted.has_usage),
          choices_(wanted.choices),
          head_({{"id", new_id(wanted.is_chat ? "chatcmpl-" : "cmpl-")},
                 {"created", std::time(nullptr)},
                 {"model", wanted.model->name()}}) {}

    json whole(const std::vector<Generation>& all) const {
        json body = head_;
        body["object"] = is_chat_ ? "chat.completion" : "text_completion";
        body["choices"] = json::array();
        for (std::size_t i = 0; i < all.size(); ++i) {
            json choice = {{"index", i}, {"finish_reason", finish_reason(all[i].finish)}, {"logprobs", nullptr}};
            if (is_chat_)
                choice["message"] = {{"role", "assistant"}, {"content", all[i].text}, {"refusal", nullptr}};
            else
                choice["text"] = all[i].text;
            body["choices"].push_back(std::move(choice));
        }
        body["usage"] = usage_of(all, choices_);
        return body;
    }

    // These three on the engine's thread.
    bool piece(std::size_t index, std::string_view text) {
        begin();
        if (text.empty()) return stream_.write("");
        return stream_.write(chunk(index, {{"content", text}}, text, nullptr));
    }
    void end(std::size_t index, Finish finish) {
        begin();
        stream_.write(chunk(index, json::object(), "", finish_reason(finish)));
    }
    void all_ended(const std::vector<Generation>& all) {
        std::string events;
        if (has_usage_) {
            json last = chunk_head();
            last["choices"] = json::array();
            last["usage"] = usage_of(all, choices_);
            events = event(last);
        }
        stream_.end(events + "data: [DONE]\n\n");
    }
    void fail(const Refusal& refusal) { stream_.fail(refusal); }
    void reply(const std::vector<Generation>& all) { call_.reply(whole(all)); }

private:
    /// The roles.
    void begin() {
        if (std::exchange(has_begun_, true) || !is_chat_) return;
        std::string events;
        for (std::size_t i = 0; i < choices_; ++i)
            events += chunk(i, {{"role", "assistant"}, {"content", ""}}, "", nullptr);
        stream_.write(std::move(events));
    }
    json chunk_head() const {
        json body = head_;
        body["object"] = is_chat_ ? "chat.completion.chunk" : "text_completion";
        return body;
    }
    std::string chunk(std::size_t index, const json& delta, std::string_view text, const json& finish) const {
        json body = chunk_head();
        json choice = {{"index", index}, {"finish_reason", finish}, {"logprobs", nullptr}};
        if (is_chat_)
            choice["delta"] = delta;
        else
            choice["text"] = text;
        body["choices"] = json::array({std::move(choice)});
        if (has_usage_) body["usage"] = nullptr;
        return event(body);
    }

    Call call_;
    EventStream stream_;
    bool is_chat_, has_usage_;
    std::size_t choices_;
    json head_;
    bool has_begun_ = false;
};

void run(const Call& call, const Wanted& wanted) {
    const auto writer = std::make_shared<Writer>(call, wanted);
    GenerationSteps steps{.on_error = [writer](const Refusal& refusal) { writer->fail(refusal); }};
    std::vector<GenerationRequest> requests = wanted.requests();
    if (wanted.streams) {
        steps.on_text = [writer](std::size_t index, std::string_view text) { return writer->piece(index, text); };
        steps.on_end = [writer](std::size_t index, const Generation& generation) {
            writer->end(index, generation.finish);
        };
        steps.on_all = [writer](const std::vector<Generation>& all) { writer->all_ended(all); };
    } else {
        steps.on_all = [writer](const std::vector<Generation>& all) { writer->reply(all); };
    }
    generate(*wanted.model, call, std::move(requests), std::move(steps));
}

}  // namespace

std::vector<Route> chat_routes(const ModelSet& models, const Limits& limits) {
    const auto route = [&](std::string_view path, std::string_view summary,
                           Wanted (*read)(const ModelSet&, const json&)) {
        return Route{
            .method = "POST",
            .path = path,
            .body_bytes = limits.body_bytes,
            .is_work = true,
            .summary = summary,
            .gives = {"application/json", "text/event-stream"},
            .answer = [&models, read](const Call& call) { run(call, read(models, parse_body(call.request()))); }};
    };
    return {route("/v1/chat/completions", "The answer to a conversation, as OpenAI's API has it", read_chat),
            route("/v1/completions", "Texts continued, as OpenAI's API has it", read_completion)};
}

}  // namespace vkformer::serve
