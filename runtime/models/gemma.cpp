// SPDX-License-Identifier: MIT
// Gemma 1, 2 and 3 (Gemma Team 2024, 2024, 2025; of Gemma 3 the text part): embeddings scaled by √hidden_size, gains stored minus
// one, GeGLU; from 2 on norms before and behind attention and feed-forward layers, windows on some layers; 2 has soft caps, 3 norms
// on the heads of query and key and a rotary base of its own for the layers with windows. EmbeddingGemma (2025) is a 3 whose tokens see
// what follows them, too.
#include <cmath>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

enum class Generation : std::uint8_t { first, second, third };

Result<void> read_attention(const Config& config, Generation generation, DecoderConfig& c) {
    VKFORMER_TRY(const bool bidirectional, config.boolean("use_bidirectional_attention", false));
    if (bidirectional && generation != Generation::third)
        return config.unsupported("use_bidirectional_attention", "false");
    if (generation == Generation::first) return {};
    VKFORMER_TRY(const double scalar, config.real("query_pre_attn_scalar", {.fallback = 256, .min = 1e-3, .max = 1e9}));
    c.attention_scale = static_cast<float>(1 / std::sqrt(scalar));
    const bool is_second = generation == Generation::second;
    if (!is_second && config.has("attn_logit_softcapping"))  // which has no effect there
        return config.unsupported("attn_logit_softcapping", "null");
    const auto cap = [&](std::string_view name, double usual) {
        return config.real(name, {.fallback = is_second && !is_null(config, name) ? usual : 0, .min = 0, .max = 1e6});
    };
    VKFORMER_TRY(const double scores, cap("attn_logit_softcapping", 50));
    VKFORMER_TRY(const double logits, cap("final_logit_softcapping", 30));
    c.attention_soft_cap = static_cast<float>(scores);
    c.logit_soft_cap = static_cast<float>(logits);
    VKFORMER_TRY(const auto slides, read_sliding_layers(config, c.layers.size(), is_second ? 2 : 6));
    VKFORMER_TRY(const auto window, read_window(config, slides));
    c.is_causal = !bidirectional;
    // The field counts the keys on both sides of a token then.
    const std::uint32_t reach = bidirectional ? window / 2 + 1 : window;
    for (std::size_t i = 0; i < c.layers.size(); ++i) c.layers[i].window = slides[i] ? reach : 0;
    return {};
}

Result<void> read_ropes(const Config& config, Generation generation, DecoderConfig& c) {
    if (generation != Generation::third) {
        VKFORMER_TRY(const Rope rope, read_rope(config, c));
        c.ropes = {rope};
        for (auto& layer : c.layers) layer.rope = 0;
        return {};
    }
    VKFORMER_TRY(const Rope global, read_rope(config, c, {.theta = 1e6, .object = "full_attention"}));
    VKFORMER_TRY(const Rope local, read_rope(config, c,
                                             {.theta_name = "rope_local_base_freq",
                                              .object = "sliding_attention",
                                              .is_scaled_by_rope_scaling = false}));
    if (c.extended_positions > 0) return config.unsupported("rope_type", "default, linear, llama3, yarn, proportional");
    c.ropes = {global, local};
    for (auto& layer : c.layers) layer.rope = layer.window == 0 ? 0 : 1;
    return {};
}

/// `layout`: what differs from a decoder of Gemma's in names and in what is tied.
Result<DecoderParts> load(const Config& config, const formats::Weights& weights, Generation generation,
                          const std::string& prefix, LlamaLayout layout) {
    DecoderParts parts;
    DecoderConfig& c = parts.config;
    VKFORMER_TRY(c, read_sizes(config));
    if (!config.has("head_dim")) return config.unsupported("head_dim", "a number");
    c.norm_gain_offset = 1;
    c.embedding_scale = std::sqrt(static_cast<float>(c.hidden_size));
    // transformers 4.57 and 5.12 read the one and pass over the other; some versions between did the reverse for Gemma 1.
    const char* const activation = generation == Generation::first ? "hidden_act" : "hidden_activation";
    VKFORMER_TRY(c.activation, read_activation(config, activation, "gelu_pytorch_tanh"));
    VKFORMER_CHECK(read_attention(config, generation, c));
    VKFORMER_CHECK(read_ropes(config, generation, c));

    layout.head_norms = generation == Generation::third;
    if (generation != Generation::first) layout = with_gemma_norms(std::move(layout));
    VKFORMER_TRY(layout.attention_bias, config.boolean("attention_bias", false));
    layout.output_bias = layout.attention_bias;
    VKFORMER_TRY(parts.weights, read_llama_weights(weights, c, layout, prefix));
    return parts;
}

Result<DecoderParts> load_decoder_alone(const Config& config, const formats::Weights& weights, Generation generation,
                                        const std::string& prefix) {
    LlamaLayout layout;
    VKFORMER_TRY(layout.tied, config.boolean("tie_word_embeddings", true));
    constexpr const char* kTower = "language_model.";  // of a folder with a vision tower, as transformers 4 writes it
    if (weights.has(std::string(kTower) + "lm_head.weight")) layout.head_prefix = kTower;
    return load(config, weights, generation, prefix, std::move(layout));
}

}  // namespace

Result<DecoderParts> load_gemma2_stack(const Config& config, const formats::Weights& weights, const std::string& prefix,
                                       LlamaLayout layout) {
    return load(config, weights, Generation::second, prefix, std::move(layout));
}

Result<DecoderParts> load_gemma(const Config& config, const formats::Weights& weights) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    const std::string probe = "embed_tokens.weight";
    if (type == "gemma3") {  // with a vision tower, which is not read
        VKFORMER_TRY(const Config text, config.object("text_config"));
        if (text.has("final_logit_softcapping"))  // of the model alone; beside the tower it has no effect
            return text.unsupported("final_logit_softcapping", "null");
        for (const std::string prefix : {"language_model.model.", "model.language_model."})
            if (weights.find(prefix + probe)) return load_decoder_alone(text, weights, Generation::third, prefix);
        return load_decoder_alone(text, weights, Generation::third, "language_model.model.");
    }
    const Generation generation = type == "gemma"    ? Generation::first
                                  : type == "gemma2" ? Generation::second
                                                     : Generation::third;
    return load_decoder_alone(config, weights, generation, find_prefix(weights, "model.", probe));
}

}  // namespace vkformer::models
