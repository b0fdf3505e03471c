// SPDX-License-Identifier: MIT
#include "api/language_model.hpp"

#include <algorithm>

#include "api/named_adapters.hpp"
#include "api/weight_storage.hpp"
#include "core/try.hpp"

namespace vkformer::api {

Result<LanguageModel> load_language_model(const std::filesystem::path& path, const std::vector<Adapter>& adapters,
                                          bool multi_token) {
    VKFORMER_TRY(const auto opened, models::open_decoder(path));
    LanguageModel made;
    made.adapters = names_of(adapters);
    VKFORMER_TRY(const auto read, open_adapters(adapters));
    VKFORMER_TRY(auto loaded, opened.load());
    if (!read.empty()) {
        VKFORMER_TRY(loaded, models::with_adapters(opened, loaded, read));
    }
    if (multi_token) {
        VKFORMER_TRY(auto head, models::load_head(opened, loaded));
        made.head = std::make_unique<models::Decoder>(std::move(head));
    }
    made.model = std::make_unique<models::Decoder>(std::move(loaded));
    const std::uint32_t vocab = made.model->config().vocab_size;
    VKFORMER_TRY(made.text, load_decoder_text(opened, vocab));
    if (made.tokenizer() && made.tokenizer()->vocab_size() > vocab)
        return Error{ErrorCode::ShapeMismatch, path.string() + ": the tokenizer knows " +
                                                   std::to_string(made.tokenizer()->vocab_size()) +
                                                   " tokens, the model only " + std::to_string(vocab)};
    return made;
}

Result<std::vector<std::int32_t>> LanguageModel::tokenize(std::string_view words) const {
    if (!text.tokenizer) return text.tokenizer.error();
    return tokenizer()->encode(words);
}

Result<std::vector<std::int32_t>> LanguageModel::tokenize_chat(std::span<const Message> messages,
                                                               const ChatOptions& options) const {
    // Behind the answer's beginning, to find it in what the template makes of it.
    constexpr std::string_view kHere = "\u2060vkformer goes on here\u2060";
    if (!text.chat_template) return text.chat_template.error();
    std::vector<text::ChatMessage> conversation;
    for (const Message& message : messages) conversation.push_back({message.role, message.content, message.further});
    const bool continues = options.continues_last && !conversation.empty();
    if (continues && !options.answer_prefix.empty())
        return Error{ErrorCode::InvalidArgument, "an answer that goes on has its beginning: leave out answer_prefix"};
    if (continues) conversation.back().content += kHere;
    VKFORMER_TRY(std::string prompt, text.chat_template->render(conversation, {.add_generation_prompt = !continues,
                                                                               .variables = options.variables}));
    if (continues) {
        const std::size_t end = prompt.rfind(kHere);
        if (end == prompt.npos)
            return Error{ErrorCode::InvalidArgument,
                         "the model's chat template leaves the last message out: an answer cannot go on from there"};
        prompt.resize(end);
    }
    return tokenizer()->encode(prompt + options.answer_prefix, {.add_special = false});
}

Result<std::uint32_t> LanguageModel::max_tokens(const GenerateOptions& asked, std::size_t prompt,
                                                std::string_view name) const {
    if (asked.max_tokens > 0) return asked.max_tokens;
    if (text.defaults.max_length == 0) return text.defaults.max_new_tokens;
    if (prompt < text.defaults.max_length) return text.defaults.max_length - static_cast<std::uint32_t>(prompt);
    return Error{.code = ErrorCode::InvalidArgument,
                 .message = std::string(name) + " has " + std::to_string(prompt) +
                            " tokens, but the model's generation_config.json says \"max_length\" " +
                            std::to_string(text.defaults.max_length) +
                            ", which counts the prompt; say how many tokens to generate",
                 .hint = Hint::max_tokens};
}

Result<void> check_stops(const GenerateOptions& asked) {
    if (std::ranges::find(asked.stop, std::string()) == asked.stop.end()) return {};
    return Error{ErrorCode::InvalidArgument, "an empty stop text ends nothing: leave it out"};
}

const std::vector<std::string>& LanguageModel::stops(const GenerateOptions& asked) const noexcept {
    return asked.stop.empty() ? text.defaults.stop_strings : asked.stop;
}

bool LanguageModel::is_end(std::int32_t token) const { return std::ranges::count(text.defaults.end_tokens, token) > 0; }

Result<std::vector<float>> LanguageModel::adapter_scales(const std::map<std::string, float>& asked) const {
    return scales_of(model->weights(), adapters, asked);
}

Result<std::shared_ptr<constraints::TokenConstraint>> LanguageModel::constraint(const GenerateOptions& asked,
                                                                                ConstraintCache& cache) const {
    if (!asked.constraint) return std::shared_ptr<constraints::TokenConstraint>();
    if (!text.tokenizer) return text.tokenizer.error();
    if (asked.ignore_end || asked.min_tokens.value_or(0) > 0)
        return Error{
            ErrorCode::InvalidArgument,
            "a constrained text ends where it is whole: leave out ignore_end and min_tokens, or the constraint"};
    return cache.get(*asked.constraint, *tokenizer(), text.defaults.end_tokens, model->config().vocab_size);
}

decoding::DecoderSessionOptions session_options(const GeneratorOptions& options, const graph::SampleOptions& sample) {
    return {.rows = options.batch,
            .context = options.context,
            .dtype = options.precision == Precision::f16 ? DType::f16 : DType::f32,
            .weights = format_of(options.weights),
            .cache = options.cache == CacheStorage::q8_0 ? models::CacheFormat::q8_0 : models::CacheFormat::as_computed,
            .sample = sample,
            .hands_over = options.multi_token};
}

OpenOptions open_options(const GeneratorOptions& options) {
    OpenOptions open{.device = options.device,
                     .plain = options.plain_shaders,
                     .variants = options.shader_variants,
                     .should_stop = options.should_stop,
                     .offload = options.offload};
    report_to(options.on_progress, open);
    return open;
}

std::string GenerationText::take(std::string_view part) {
    auto output = stops.push(part);
    is_stopped = is_stopped || output.stop.has_value();
    if (output.stop) stopped_by = stop_texts[*output.stop];
    text += output.text;
    return std::move(output.text);
}

void GenerationText::finish() {
    if (stream) take(stream->finish());
    text += stops.finish();
}

Finish finish_of(decoding::FinishReason reason, bool is_stopped) {
    if (is_stopped) return Finish::stop_string;
    switch (reason) {
    case decoding::FinishReason::stop: return Finish::end_token;
    case decoding::FinishReason::caller: return Finish::caller;
    case decoding::FinishReason::context: return Finish::context;
    default: return Finish::length;
    }
}

}  // namespace vkformer::api
