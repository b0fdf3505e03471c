// SPDX-License-Identifier: MIT
// OLMo 2 (OLMo et al. 2024, arXiv 2501.00656) and 3 (2025, arXiv 2512.13961): norms behind attention and feed-forward layers, before what
// they give is added, and norms over all heads of query and of key together. 3 has windows on three of four layers, whose positions are
// never scaled.
#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

Result<void> read_olmo_windows(const Config& config, DecoderConfig& c) {
    constexpr std::uint32_t kPattern = 4;  // layers from one without a window to the next
    VKFORMER_TRY(const auto window,
                 config.unsigned_integer("sliding_window", {.fallback = 4096, .min = 1, .max = 1u << 28}));
    std::vector<bool> slides(c.layers.size());
    for (std::size_t i = 0; i < slides.size(); ++i) slides[i] = (i + 1) % kPattern != 0;
    if (config.has("layer_types")) {
        VKFORMER_TRY(slides, read_sliding_layers(config, c.layers.size()));
    }
    if (c.extended_positions > 0) return config.unsupported("rope_type", "default, linear, llama3, yarn");
    VKFORMER_TRY(const RopeSource source, find_rope(config));
    c.ropes.push_back({.frequencies = graph::rope_frequencies(c.head_dim, source.theta)});
    for (std::size_t i = 0; i < slides.size(); ++i)
        if (slides[i]) c.layers[i] = {.window = window, .rope = 1};
    return {};
}

}  // namespace

Result<DecoderParts> load_olmo(const Config& config, const formats::Weights& weights) {
    DecoderParts parts;
    DecoderConfig& c = parts.config;
    VKFORMER_TRY(c, read_sizes(config));
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    VKFORMER_TRY(const double eps, config.real("rms_norm_eps", {.fallback = 1e-5, .min = 0, .max = 1}));
    c.norm_eps = static_cast<float>(eps);
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "silu"));
    VKFORMER_TRY(const Rope rope, read_rope(config, c));
    c.ropes = {rope};
    c.layers.assign(c.layers.size(), {.rope = 0});
    if (type == "olmo3") VKFORMER_CHECK(read_olmo_windows(config, c));

    LlamaLayout layout = {.wide_norms = true, .olmo_norms = true};
    VKFORMER_TRY(layout.attention_bias, config.boolean("attention_bias", false));
    layout.output_bias = layout.attention_bias;
    VKFORMER_TRY(layout.tied, config.boolean("tie_word_embeddings", false));
    VKFORMER_TRY(parts.weights,
                 read_llama_weights(weights, c, layout, find_prefix(weights, "model.", "embed_tokens.weight")));
    return parts;
}

}  // namespace vkformer::models
