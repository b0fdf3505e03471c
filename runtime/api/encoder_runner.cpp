// SPDX-License-Identifier: MIT
#include "api/encoder_runner.hpp"

#include <algorithm>

#include "api/encoder_options.hpp"
#include "api/named_adapters.hpp"
#include "core/try.hpp"
#include "formats/config.hpp"
#include "formats/gguf.hpp"
#include "text/unicode.hpp"

namespace vkformer::api {

Result<std::vector<tuning::Workload>> encoder_workload(const models::Encoder& encoder,
                                                       const decoding::EncoderHead& head, DType dtype) {
    const models::EncoderLayout layout = {
        .batch = 8, .len = std::min<std::uint32_t>(32, encoder.config().max_positions), .dtype = dtype};
    VKFORMER_TRY(auto made, decoding::embedding_graph(encoder, head, layout));
    std::vector<tuning::Workload> workload;
    workload.push_back({.graph = std::move(made.graph),
                        .inputs = {{"lengths", std::vector(layout.batch, static_cast<std::int32_t>(layout.len))}}});
    return workload;
}

namespace {

/// What the tokenizer says that the model takes, where nothing else says it. "No limit" is written as 10^30.
Result<std::uint32_t> tokenizer_max_length(const std::filesystem::path& folder) {
    if (formats::is_file(folder)) return 0u;
    VKFORMER_TRY(const auto config, formats::Config::open_if_present(folder / "tokenizer_config.json"));
    VKFORMER_TRY(const double length, config.real("model_max_length", {.fallback = 0, .min = 0}));
    return length > 1e9 ? 0u : static_cast<std::uint32_t>(length);
}

/// Without the white space around it, which needs UTF-8.
Result<std::string_view> trimmed(std::string_view text) {
    VKFORMER_CHECK(text::check_utf8(text));
    return text::trim_end(text::trim_start(text, text::is_python_space), text::is_python_space);
}

/// Leaves out what follows the first end token: a text may contain one.
void cut_behind(text::Encoding& encoding, std::int32_t end_token) {
    const auto end = std::ranges::find(encoding.ids, end_token);
    if (end_token < 0 || end == encoding.ids.end()) return;
    const auto kept = static_cast<std::size_t>(end - encoding.ids.begin()) + 1;
    encoding.ids.resize(kept);
    encoding.types.resize(kept);
}

Error in_input(Error error, std::string_view what, std::size_t index) {
    error.message = std::string(what) + " " + std::to_string(index + 1) + ": " + error.message;
    return error;
}

}  // namespace

Result<EncoderRunner> EncoderRunner::load(const std::filesystem::path& folder, models::Encoder encoder,
                                          decoding::EncoderHead head, std::uint32_t max_length,
                                          const EncoderOptions& options, std::shared_ptr<OpenedBackend> device) {
    EncoderRunner runner;
    std::optional<OpeningBackend> opening;
    if (!device) opening.emplace(open_options(options));
    if (options.max_length > encoder.config().max_positions)
        return Error{ErrorCode::InvalidArgument, "the model takes at most " +
                                                     std::to_string(encoder.config().max_positions) + " tokens, not " +
                                                     std::to_string(options.max_length)};
    if (options.max_length > 0) {
        max_length = options.max_length;
    } else if (max_length == 0) {
        VKFORMER_TRY(max_length, tokenizer_max_length(folder));
    }
    const std::uint32_t positions = encoder.config().max_positions;
    runner.max_length_ = max_length == 0 ? positions : std::min(max_length, positions);
    VKFORMER_TRY(runner.tokenizer_, text::load_tokenizer(folder));
    runner.encoder_ = std::make_shared<const models::Encoder>(std::move(encoder));
    runner.adapters_ = names_of(options.adapters);
    if (opening) {
        VKFORMER_TRY(auto opened,
                     opening->get([&] { return encoder_workload(*runner.encoder_, head, dtype_of(options)); }));
        device = std::make_shared<OpenedBackend>(std::move(opened));
    }
    runner.device_ = std::move(device);
    runner.session_.emplace(
        *runner.device_->backend, *runner.encoder_, std::move(head),
        decoding::EncoderSessionOptions{.batch = std::max(options.batch, 1u), .dtype = dtype_of(options)});
    return runner;
}

EncoderRunner EncoderRunner::twin(std::shared_ptr<OpenedBackend> twin) const {
    EncoderRunner made;
    made.encoder_ = encoder_;
    made.tokenizer_ = tokenizer_;
    made.session_.emplace(session_->twin(*twin->backend));
    made.device_ = std::move(twin);
    made.prompt_ = prompt_;
    made.padding_ = padding_;
    made.max_length_ = max_length_;
    made.adapters_ = adapters_;
    return made;
}

Result<text::Encoding> EncoderRunner::encode(const EncoderInput& input) const {
    if (prompt_ && input.second) return encode_prompted(input);
    // Who scores by a decoder puts the parts of its prompt into both texts, line feeds at their ends too.
    if (input.second && encoder_->config().is_causal)
        return tokenizer_->encode_for_encoder(input.first, input.second, max_length_);
    if (padding_) {
        VKFORMER_CHECK(text::check_utf8(input.first));
        return tokenizer_->encode_for_encoder(padding_->written(input.first), {}, max_length_);
    }
    VKFORMER_TRY(const std::string_view first, trimmed(input.first));
    std::optional<std::string_view> second;
    if (input.second) {
        VKFORMER_TRY(second, trimmed(*input.second));
    }
    return tokenizer_->encode_for_encoder(first, second, max_length_);
}

Result<text::Encoding> EncoderRunner::encode_prompted(const EncoderInput& input) const {
    const std::string text = prompt_->before + std::string(input.first) + prompt_->between + std::string(*input.second);
    VKFORMER_TRY(auto body, tokenizer_->encode(text, {.add_special = false, .parse_special = false}));
    text::Encoding encoding;
    const std::size_t room = max_length_ - prompt_->prefix.size() - prompt_->suffix.size();
    if (body.size() > room) {
        encoding.cut = body.size() - room;
        body.resize(room);
    }
    for (const auto* const part : {&prompt_->prefix, &std::as_const(body), &prompt_->suffix})
        encoding.ids.insert(encoding.ids.end(), part->begin(), part->end());
    encoding.types.assign(encoding.ids.size(), 0);
    return encoding;
}

Result<void> EncoderRunner::set_prompt(const PairPrompt& prompt) {
    const auto tokens = [&](const std::string& text) { return tokenizer_->encode(text, {.add_special = false}); };
    EncodedPrompt encoded = {.prefix = {}, .suffix = {}, .before = prompt.before, .between = prompt.between};
    VKFORMER_TRY(encoded.prefix, tokens(prompt.prefix));
    VKFORMER_TRY(encoded.suffix, tokens(prompt.suffix));
    const std::size_t ends = encoded.prefix.size() + encoded.suffix.size();
    if (ends >= max_length_)
        return Error{ErrorCode::InvalidArgument, "the model's prompt has " + std::to_string(ends) +
                                                     " tokens, and at most " + std::to_string(max_length_) +
                                                     " are allowed: none is left for the texts"};
    prompt_ = std::move(encoded);
    return {};
}

Result<void> EncoderRunner::pad_texts(const std::filesystem::path& folder) {
    VKFORMER_TRY(padding_, PaddedTexts::read(folder, *tokenizer_));
    return {};
}

Result<void> EncoderRunner::check(const EncoderInput& input) const {
    VKFORMER_CHECK(encode(input));
    return {};
}

Result<std::vector<EncoderOutput>> EncoderRunner::run(std::span<const EncoderInput> inputs, std::string_view what,
                                                      const Embedder::Progress& progress,
                                                      const std::map<std::string, float>& adapters) {
    VKFORMER_TRY(const std::vector<float> scales, scales_of(encoder_->weights(), adapters_, adapters));
    std::vector<text::Encoding> encodings;
    std::vector<decoding::EncoderText> texts;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        auto encoding = encode(inputs[i]);
        if (!encoding) return in_input(std::move(encoding).error(), what, i);
        cut_behind(*encoding, encoder_->config().end_token);
        encodings.push_back(*std::move(encoding));
    }
    std::vector<EncoderOutput> outputs;
    const bool has_types = encoder_->config().types > 1;
    for (text::Encoding& encoding : encodings) {
        outputs.push_back({.values = {}, .tokens = encoding.ids.size(), .cut = encoding.cut});
        if (padding_) padding_->fill(encoding.ids, encoder_->config().max_positions);
        texts.push_back(
            {.tokens = encoding.ids,
             .types = has_types ? std::span<const std::int32_t>(encoding.types) : std::span<const std::int32_t>()});
    }
    VKFORMER_TRY(auto rows, session_->run(texts, progress, scales));
    for (std::size_t i = 0; i < rows.size(); ++i) outputs[i].values = std::move(rows[i]);
    return outputs;
}

}  // namespace vkformer::api
