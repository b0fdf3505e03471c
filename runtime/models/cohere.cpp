// SPDX-License-Identifier: MIT
// Command R and R+, Aya (Cohere 2024; Aryabumi et al. 2024, arXiv 2405.15032), Command R7B and A (2025, arXiv 2504.00698): both parts
// of a layer side by side behind one layer norm without a bias, neighbours turned, logits scaled. R+ norms its heads with gains of their
// own; the later ones have windows, and no positions on the layers that have none.
#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

Result<void> read_cohere_windows(const Config& config, DecoderConfig& c) {
    VKFORMER_TRY(const auto slides, read_sliding_layers(config, c.layers.size(), 4));
    VKFORMER_TRY(const auto window, read_window(config, slides));
    for (std::size_t i = 0; i < slides.size(); ++i)
        c.layers[i] = slides[i] ? DecoderConfig::Layer{.window = window, .rope = 0} : DecoderConfig::Layer{};
    return {};
}

}  // namespace

Result<DecoderParts> load_cohere(const Config& config, const formats::Weights& weights) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    const bool is_second = type == "cohere2";
    DecoderParts parts;
    DecoderConfig& c = parts.config;
    VKFORMER_TRY(c, read_sizes(config, {.positions = 8192}));
    if (is_second && c.head_dim * c.heads != c.hidden_size)
        return config.unsupported("head_dim", "hidden_size / num_attention_heads");
    VKFORMER_TRY(const double eps, config.real("layer_norm_eps", {.fallback = 1e-5, .min = 0, .max = 1}));
    c.norm = DecoderConfig::Norm::layer;
    c.norm_eps = static_cast<float>(eps);
    c.is_parallel = true;
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "silu"));
    VKFORMER_TRY(const double logit_scale, config.real("logit_scale", {.fallback = 0.0625, .min = 1e-6, .max = 1e6}));
    c.logit_scale = static_cast<float>(logit_scale);
    VKFORMER_TRY(Rope rope, read_rope(config, c, {.theta = is_second ? 1e4 : 5e5}));
    rope.pairing = graph::RopePairing::interleaved;
    c.ropes = {std::move(rope)};
    c.layers.assign(c.layers.size(), {.rope = 0});
    if (is_second) VKFORMER_CHECK(read_cohere_windows(config, c));
    VKFORMER_TRY(const double turned, config.real("rotary_pct", {.fallback = 1, .min = 0, .max = 1}));
    if (turned != 1) return config.unsupported("rotary_pct", "1");
    for (const char* const always : {"use_parallel_block", "use_gated_activation"}) {
        VKFORMER_TRY(const bool is_so, config.boolean(always, true));
        if (!is_so) return config.unsupported(always, "true");
    }

    LlamaLayout layout = {.feed_forward_norm = "input_layernorm"};
    VKFORMER_TRY(layout.own_head_gains, config.boolean("use_qk_norm", false));
    if (is_second && layout.own_head_gains) return config.unsupported("use_qk_norm", "false");
    VKFORMER_TRY(layout.attention_bias, config.boolean("attention_bias", false));
    layout.output_bias = layout.attention_bias;
    VKFORMER_TRY(layout.tied, config.boolean("tie_word_embeddings", true));
    VKFORMER_TRY(parts.weights,
                 read_llama_weights(weights, c, layout, find_prefix(weights, "model.", "embed_tokens.weight")));
    return parts;
}

}  // namespace vkformer::models
