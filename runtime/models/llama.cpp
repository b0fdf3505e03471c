// SPDX-License-Identifier: MIT
// Llama 2 and 3 (Touvron et al. 2023, Meta 2024), Mistral (Jiang et al. 2023: a sliding window), SmolLM 2 (a Llama) and SmolLM 3
// (layers without positions).
#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

/// Mistral's window holds for all layers, or for those that layer_types names.
Result<void> read_mistral_windows(const Config& config, DecoderConfig& c) {
    VKFORMER_TRY(const auto window, config.unsigned_integer("sliding_window", {.fallback = 0, .max = 1u << 28}));
    if (config.has("layer_types")) {
        VKFORMER_TRY(const auto slides, read_sliding_layers(config, c.layers.size()));
        for (std::size_t i = 0; i < c.layers.size(); ++i) c.layers[i].window = slides[i] ? window : 0;
        return {};
    }
    VKFORMER_TRY(const bool uses_window, config.boolean("use_sliding_window", true));
    for (auto& layer : c.layers) layer.window = uses_window ? window : 0;
    return {};
}

/// SmolLM 3's: with use_sliding_window that of the layers that layer_types names, or else of those without positions.
Result<void> read_smollm3_windows(const Config& config, DecoderConfig& c) {
    VKFORMER_TRY(const auto window, config.unsigned_integer("sliding_window", {.fallback = 0, .max = 1u << 28}));
    VKFORMER_TRY(const bool uses_window, config.boolean("use_sliding_window", false));
    VKFORMER_TRY(const auto named, read_sliding_layers(config, c.layers.size()));
    const bool is_named = config.has("layer_types");
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        const bool slides = is_named ? named[i] : uses_window && !c.layers[i].rope;
        if (slides && !uses_window)  // masks have the window then, and kernels that make masks themselves do not
            return config.unsupported("layer_types", "full attention in all layers where use_sliding_window is false");
        c.layers[i].window = slides ? window : 0;
    }
    return {};
}

/// SmolLM 3: no_rope_layers[i] is 1 where layer i *has* rotary positions; without the list every fourth layer has none.
Result<void> read_layers_without_rope(const Config& config, DecoderConfig& c) {
    VKFORMER_TRY(const auto flags, config.token_ids("no_rope_layers"));
    VKFORMER_TRY(const auto interval, config.unsigned_integer("no_rope_layer_interval", {.fallback = 4, .min = 1}));
    if (!flags.empty() && flags.size() != c.layers.size())
        return config.unsupported("no_rope_layers", "a list of " + std::to_string(c.layers.size()) + " numbers");
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        const bool turns = flags.empty() ? (i + 1) % interval != 0 : flags[i] != 0;
        if (!turns) c.layers[i].rope.reset();
    }
    return {};
}

}  // namespace

Result<DecoderParts> load_llama(const Config& config, const formats::Weights& weights) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    VKFORMER_TRY(const auto pretraining_tp, config.unsigned_integer("pretraining_tp", {.fallback = 1}));
    if (pretraining_tp != 1) return config.unsupported("pretraining_tp", "1");
    DecoderParts parts;
    DecoderConfig& c = parts.config;
    VKFORMER_TRY(c, read_sizes(config));
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "silu"));
    VKFORMER_TRY(const Rope rope, read_rope(config, c, {.theta = type == "smollm3" ? 2e6 : 1e4}));
    c.ropes = {rope};
    for (auto& layer : c.layers) layer.rope = 0;
    if (type == "mistral") VKFORMER_CHECK(read_mistral_windows(config, c));
    if (type == "smollm3") {
        VKFORMER_CHECK(read_layers_without_rope(config, c));
        VKFORMER_CHECK(read_smollm3_windows(config, c));
    }

    LlamaLayout layout;
    VKFORMER_TRY(layout.attention_bias, config.boolean("attention_bias", false));
    VKFORMER_TRY(layout.feed_forward_bias, config.boolean("mlp_bias", false));
    VKFORMER_TRY(layout.tied, config.boolean("tie_word_embeddings", type == "smollm3"));
    layout.output_bias = layout.attention_bias;
    VKFORMER_TRY(parts.weights,
                 read_llama_weights(weights, c, layout, find_prefix(weights, "model.", "embed_tokens.weight")));
    return parts;
}

}  // namespace vkformer::models
