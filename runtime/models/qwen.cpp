// SPDX-License-Identifier: MIT
// Qwen 2 and 2.5 (biases on query, key and value) and Qwen 3 (norms on the heads of query and key, a head size of its own).
#include <algorithm>
#include <cmath>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

/// With use_sliding_window, layers from max_window_layers on have the window, or those that layer_types names.
Result<void> read_qwen_windows(const Config& config, DecoderConfig& c) {
    VKFORMER_TRY(const bool uses_window, config.boolean("use_sliding_window", false));
    VKFORMER_TRY(auto slides, read_sliding_layers(config, c.layers.size()));
    if (!uses_window) {
        if (std::ranges::count(slides, true) == 0) return {};
        return config.unsupported("layer_types", "full attention in all layers where use_sliding_window is false");
    }
    if (!config.has("layer_types")) {
        VKFORMER_TRY(const auto first, config.unsigned_integer("max_window_layers", {.fallback = 28}));
        const bool has_window = !is_null(config, "sliding_window");
        for (std::size_t i = 0; i < slides.size(); ++i) slides[i] = has_window && i >= first;
    }
    VKFORMER_TRY(const auto window, read_window(config, slides));
    for (std::size_t i = 0; i < slides.size(); ++i) c.layers[i].window = slides[i] ? window : 0;
    return {};
}

}  // namespace

Result<DecoderParts> load_qwen(const Config& config, const formats::Weights& weights) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    const bool is_third = type == "qwen3";
    DecoderParts parts;
    DecoderConfig& c = parts.config;
    VKFORMER_TRY(c, read_sizes(config, {.head_dim = is_third ? 128u : 0u}));
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "silu"));
    VKFORMER_TRY(const Rope rope, read_rope(config, c));
    c.ropes = {rope};
    for (auto& layer : c.layers) layer.rope = 0;
    VKFORMER_CHECK(read_qwen_windows(config, c));

    LlamaLayout layout = {.attention_bias = !is_third, .head_norms = is_third};
    if (is_third) {
        VKFORMER_TRY(layout.attention_bias, config.boolean("attention_bias", false));
        layout.output_bias = layout.attention_bias;
    }
    VKFORMER_TRY(layout.tied, config.boolean("tie_word_embeddings", false));
    VKFORMER_TRY(parts.weights,
                 read_llama_weights(weights, c, layout, find_prefix(weights, "model.", "embed_tokens.weight")));
    return parts;
}

}  // namespace vkformer::models
