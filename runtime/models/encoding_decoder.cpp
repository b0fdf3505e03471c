// SPDX-License-Identifier: MIT
// Decoders that give vectors or scores in place of text: Qwen3-Embedding (Zhang et al. 2025), E5 on Mistral (Wang et al. 2024),
// EmbeddingGemma, and what transformers calls "…ForSequenceClassification" of a decoder, with a head behind the last token. What
// transformers looks for from the end, the last token that is no padding, is the last token of the text here: they differ for texts
// that end with the padding token itself.
#include <algorithm>
#include <string>
#include <utility>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"
#include "models/encoder_loading.hpp"
#include "models/gguf_architecture.hpp"
#include "models/sentence.hpp"

namespace vkformer::models {

EncoderConfig encoder_config_of(const DecoderConfig& decoder) {
    EncoderConfig c;
    c.vocab_size = decoder.vocab_size;
    c.hidden_size = decoder.hidden_size;
    c.intermediate_size = decoder.intermediate_size;
    c.layers = static_cast<std::uint32_t>(decoder.layers.size());
    c.heads = decoder.heads;
    c.norm_eps = decoder.norm_eps;
    c.activation = decoder.activation;
    c.norm_place = decoder.norm_place;
    c.max_positions = decoder.max_positions;
    c.is_causal = decoder.is_causal;
    c.head_pooling = graph::Pooling::last;
    return c;
}

Result<void> read_causality(const formats::Config& config, DecoderConfig& decoder) {
    VKFORMER_TRY(const bool is_causal, config.boolean("is_causal", true));
    if (is_causal) return {};
    decoder.is_causal = false;
    for (auto& layer : decoder.layers)
        if (layer.window > 0) ++layer.window;
    return {};
}

Result<void> read_causality(const formats::Gguf& file, const GgufArchitecture& architecture, DecoderConfig& decoder) {
    const std::string key = std::string(architecture.name) + ".attention.causal";
    VKFORMER_TRY(const bool is_causal, file.boolean(key, true));
    if (is_causal) return {};
    if (std::ranges::any_of(decoder.layers, [](const auto& layer) { return layer.window > 0; }))
        return file.unsupported(key, "true where layers have windows");
    decoder.is_causal = false;
    return {};
}

Encoder encoder_over(DecoderParts parts, const EncoderConfig& config, EncoderWeights head) {
    return Encoder(config, std::move(head),
                   std::make_shared<const Decoder>(std::move(parts.config), std::move(parts.weights)));
}

Result<Encoder> encoder_of(const formats::Config& config, const formats::Weights& weights, DecoderParts parts) {
    VKFORMER_CHECK(read_causality(config, parts.config));
    EncoderConfig c = encoder_config_of(parts.config);
    VKFORMER_TRY(c.labels, read_labels(config));
    EncoderWeights head;
    if (c.labels > 0) {
        const WeightReader read(weights, "");
        VKFORMER_TRY(head.head_output, read.projection("score", c.labels, c.hidden_size, read.has("score.bias")));
    }
    return encoder_over(std::move(parts), c, std::move(head));
}

Result<Encoder> scorer_of(Decoder decoder, const ScoreTokens& tokens) {
    VKFORMER_CHECK(decoder.check_encoding());
    EncoderConfig c = encoder_config_of(decoder.config());
    const Projection& lm_head = decoder.weights().lm_head;
    const auto is_token = [&](std::int32_t id) { return id >= 0 && static_cast<std::uint32_t>(id) < c.vocab_size; };
    if (decoder.config().logit_scale != 1 || decoder.config().logit_soft_cap != 0 || lm_head.bias.bytes.size() > 0 ||
        !is_token(tokens.yes) || !is_token(tokens.no))
        return Error{
            ErrorCode::UnsupportedConfig,
            "the language model gives no scores: its logits have a scale, caps or biases, or the tokens of the score "
            "are none of its vocabulary"};
    const auto row = [&](std::int32_t id) {
        return floats_of(rows_of(lm_head.weight, static_cast<std::uint64_t>(id), 1));
    };
    VKFORMER_TRY(auto difference, row(tokens.yes));
    VKFORMER_TRY(const auto no, row(tokens.no));
    for (std::size_t i = 0; i < no.size(); ++i) difference[i] -= no[i];
    c.labels = 1;
    EncoderWeights head;
    head.head_output.weight = float_tensor({1, c.hidden_size}, std::move(difference));
    return Encoder(c, std::move(head), std::make_shared<const Decoder>(std::move(decoder)));
}

Result<void> check_attention(const std::string& file_name, const DecoderConfig& config) {
    if (config.attention_layers() > 0) return {};
    return Error{
        ErrorCode::UnsupportedConfig,
        file_name + ": no layer of the model has attention; models of layers with a state alone cannot be run"};
}

Result<DecoderParts> language_model(const formats::Config& config, const formats::Weights& weights,
                                    DecoderParts parts) {
    VKFORMER_TRY(const formats::Config text, config.object("text_config"));  // of Gemma 3 with a vision tower
    for (const auto* const holder : {&config, &text}) {
        VKFORMER_TRY(const bool is_causal, holder->boolean("is_causal", true));
        if (!is_causal) return holder->unsupported("is_causal", "true");
    }
    constexpr std::string_view kBoth = "use_bidirectional_attention";
    if (!parts.config.is_causal) return (text.has(kBoth) ? text : config).unsupported(kBoth, "false");
    VKFORMER_CHECK(check_attention(config.file_name(), parts.config));
    if (parts.weights.lm_head) return parts;
    VKFORMER_TRY(const TensorData missing, weights.get("lm_head.weight"));
    return parts;
}

}  // namespace vkformer::models
