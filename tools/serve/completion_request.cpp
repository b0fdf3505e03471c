// SPDX-License-Identifier: MIT
#include "serve/completion_request.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "serve/constraint_fields.hpp"
#include "serve/fields.hpp"
#include "serve/generation_fields.hpp"

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kMostChoices = 16, kMostStops = 16, kMostPrompts = 64;
constexpr std::int64_t kMostTokens = 1 << 24, kMostLogProbs = 20;
constexpr std::int64_t kCompletionTokens = 16;  // where nothing is said, as in OpenAI's API

void refuse_what_is_not_done(Fields& fields) { fields.only("modalities", json{"text"}, "only text is written"); }

void read_stream(Fields& fields, CompletionRequest& request) {
    request.streams = fields.boolean("stream").value_or(false);
    const json* const options = fields.take("stream_options");
    if (!options) return;
    if (!request.streams) fields.refuse("stream_options", "it is for \"stream\": true");
    Fields stream(*options, "stream_options");
    request.has_usage = stream.boolean("include_usage").value_or(false);
    stream.pass_over({"include_obfuscation"});
    stream.finish();
}

void read_asked(Fields& fields, const ModelSet& models, const Call& call, CompletionRequest& request) {
    AskedModel<TextModel> asked = read_model<TextModel>(fields, models, call);
    request.options = read_sampling(fields, 2);
    request.options.adapters = read_adapters(fields, asked);
    request.model = asked.model;
    request.name = std::move(asked.name);
}

void read_common(Fields& fields, CompletionRequest& request) {
    request.options.constraint = read_constraint(fields);
    request.options.stop = fields.texts("stop", kMostStops);
    if (std::ranges::any_of(request.options.stop, &std::string::empty))
        fields.refuse("stop", "an empty text ends nothing");
    request.choices = static_cast<std::size_t>(fields.integer("n", 1, kMostChoices).value_or(1));
    read_stream(fields, request);
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
        for (const char* const name : {"messages", "tools", "add_generation_prompt"})
            if (given->contains(name))
                fields.refuse("chat_template_kwargs",
                              std::string("it has \"") + name + "\", which the request says itself");
        options.variables = *given;
    }
    return options;
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
void read_prompts(Fields& fields, CompletionRequest& request, bool echoes) {
    const json& given = fields.needed("prompt");
    const json list = given.is_string() || is_tokens(given) ? json::array({given}) : given;
    if (!list.is_array() || list.empty() || list.size() > kMostPrompts)
        fields.refuse("prompt", "it is no text, no list of token ids, and no list of 1 to " +
                                    std::to_string(kMostPrompts) + " of these");
    for (const json& prompt : list) {
        const bool has_tokens = is_tokens(prompt);
        if (!has_tokens && !prompt.is_string())
            fields.refuse("prompt", "it has what is neither a text nor a list of token ids");
        const GenerationEngine& engine = request.model->engine();
        request.prompts.push_back(has_tokens ? prompt.get<std::vector<std::int32_t>>()
                                             : value_of(engine.tokenize(prompt.get_ref<const std::string&>())));
        if (request.prompts.back().empty())
            fields.refuse("prompt", "text " + std::to_string(request.prompts.size()) + " has no tokens");
        if (!echoes) continue;
        request.echoed.push_back(has_tokens ? value_of(engine.detokenize(request.prompts.back()))
                                            : prompt.get<std::string>());
    }
}

}  // namespace

std::vector<GenerationRequest> CompletionRequest::requests() const {
    std::vector<GenerationRequest> all;
    for (const auto& prompt : prompts)
        for (std::size_t i = 0; i < requests_per_prompt(); ++i) {
            all.push_back({.prompt = prompt, .options = options, .is_prompt_alone = is_prompt_alone});
            all.back().options.seed += i;
            if (i == 0 && !echoed.empty()) all.back().prompt_log_probs = options.log_probs;
        }
    return all;
}

CompletionRequest read_chat_completion(const ModelSet& models, const Call& call) {
    const json body = parse_body(call.request());
    Fields fields(body);
    CompletionRequest request;
    read_asked(fields, models, call, request);
    if (!request.model->engine().has_chat_template())
        fields.refuse("messages",
                      "the model has no chat template: it continues "
                      "texts, at /v1/completions");
    const Talk talk = read_messages(fields);
    request.tools = read_tools(fields, false);
    read_common(fields, request);
    read_log_probs(fields, request.options);
    const auto most = fields.integer("max_completion_tokens", 1, kMostTokens),
               older = fields.integer("max_tokens", 1, kMostTokens);
    if (most && older && *most != *older)
        fields.refuse("max_tokens", "it is another number than max_completion_tokens");
    request.options.max_tokens = static_cast<std::uint32_t>(most.value_or(older.value_or(0)));
    const PromptOptions prompt = read_prompt_options(fields, talk);
    fields.finish();
    request.prompts.push_back(make_prompt(fields, *request.model, talk, request.tools, request.options, prompt));
    return request;
}

CompletionRequest read_completion(const ModelSet& models, const Call& call) {
    const json body = parse_body(call.request());
    Fields fields(body);
    CompletionRequest request{.is_chat = false};
    read_asked(fields, models, call, request);
    const bool echoes = fields.boolean("echo").value_or(false);
    read_prompts(fields, request, echoes);
    read_common(fields, request);
    if (const auto likeliest = fields.integer("logprobs", 0, kMostLogProbs))
        request.options.log_probs = static_cast<std::uint32_t>(*likeliest);
    fields.only("suffix", "", "nothing is put before a suffix");
    fields.only("best_of", request.choices, "there are as many as are given back, n");
    request.options.max_tokens = static_cast<std::uint32_t>(
        fields.integer("max_tokens", echoes ? 0 : 1, kMostTokens).value_or(kCompletionTokens));
    request.is_prompt_alone = request.options.max_tokens == 0;
    if (request.is_prompt_alone && request.options.constraint)
        fields.refuse("max_tokens", "with 0 nothing is generated, so the answer can have no form");
    fields.finish();
    const std::uint32_t context = request.model->engine().context();
    for (const auto& prompt : request.prompts)
        if (prompt.size() > context)
            fields.refuse("prompt", "it has " + std::to_string(prompt.size()) + " tokens, the context holds " +
                                        std::to_string(context));
    if (request.prompts.size() * request.choices > kMostPrompts)
        fields.refuse("n", "with the prompts these are more than " + std::to_string(kMostPrompts) + " texts");
    return request;
}

}  // namespace vkformer::serve
