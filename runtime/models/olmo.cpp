// SPDX-License-Identifier: MIT
// OLMo 2 (OLMo et al. 2024, arXiv 2501.00656) and 3 (2025, arXiv 2512.13961): norms behind attention and feed-forward layers, before what
// they give is added, and norms over all heads of query and of key together. 3 has windows on three of four layers, whose positions are
// never scaled. EXAONE 4 (LG AI Research 2025, arXiv 2507.11407): the same with a norm of each head, and without positions where there is
// no window, if other layers have one.
#include <algorithm>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

constexpr std::uint32_t kPattern = 4;  // layers from one without a window to the next

Result<void> read_olmo_windows(const Config& config, DecoderConfig& c) {
    std::vector<bool> slides(c.layers.size());
    for (std::size_t i = 0; i < slides.size(); ++i) slides[i] = (i + 1) % kPattern != 0;
    if (config.has("layer_types")) {
        VKFORMER_TRY(slides, read_sliding_layers(config, c.layers.size()));
    }
    VKFORMER_TRY(const auto window, read_window(config, slides));
    if (c.extended_positions > 0) return config.unsupported("rope_type", "default, linear, llama3, yarn");
    VKFORMER_TRY(const RopeSource source, find_rope(config));
    c.ropes.push_back({.frequencies = graph::rope_frequencies(c.head_dim, source.theta)});
    for (std::size_t i = 0; i < slides.size(); ++i)
        if (slides[i]) c.layers[i] = {.window = window, .rope = 1};
    return {};
}

Result<void> read_exaone_windows(const Config& config, DecoderConfig& c) {
    VKFORMER_TRY(const auto slides, read_sliding_layers(config, c.layers.size(), kPattern));
    VKFORMER_TRY(const auto window, read_window(config, slides));
    if (is_null(config, "sliding_window")) return {};  // all layers have positions then
    for (std::size_t i = 0; i < slides.size(); ++i)
        c.layers[i] = slides[i] ? DecoderConfig::Layer{.window = window, .rope = 0} : DecoderConfig::Layer{};
    return {};
}

}  // namespace

Result<DecoderParts> load_olmo(const Config& config, const formats::Weights& weights) {
    DecoderParts parts;
    DecoderConfig& c = parts.config;
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    const bool is_exaone = type == "exaone4";
    VKFORMER_TRY(c, read_sizes(config, {.kv_heads = is_exaone ? 32u : 0u, .norm_eps = 1e-5}));
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "silu"));
    VKFORMER_TRY(const Rope rope, read_rope(config, c));
    c.ropes = {rope};
    c.layers.assign(c.layers.size(), {.rope = 0});
    if (type == "olmo3") VKFORMER_CHECK(read_olmo_windows(config, c));

    if (is_exaone) VKFORMER_CHECK(read_exaone_windows(config, c));

    LlamaLayout layout = {.attention_norm = {},
                          .attention_post_norm = "post_attention_layernorm",
                          .feed_forward_norm = {},
                          .feed_forward_post_norm = "post_feedforward_layernorm",
                          .head_norms = is_exaone,
                          .wide_norms = !is_exaone};
    if (!is_exaone) {
        VKFORMER_TRY(layout.attention_bias, config.boolean("attention_bias", false));
        layout.output_bias = layout.attention_bias;
    }
    VKFORMER_TRY(layout.tied, config.boolean("tie_word_embeddings", false));
    VKFORMER_TRY(parts.weights,
                 read_llama_weights(weights, c, layout, find_prefix(weights, "model.", "embed_tokens.weight")));
    return parts;
}

}  // namespace vkformer::models
