// SPDX-License-Identifier: MIT
// Llama 2 and 3 (Touvron et al. 2023, Meta 2024), Mistral (Jiang et al. 2023: a sliding window), SmolLM 2 (a Llama) and SmolLM 3
// (layers without positions), Seed-OSS (ByteDance 2025: biases of its own), Hunyuan's dense models (Tencent 2025: norms of heads behind
// their positions, positions stretched by alpha) and ERNIE 4.5's (Baidu 2025: neighbours are turned).
#include <cmath>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

/// Mistral's window holds for all layers, or for those that layer_types names.
Result<void> read_mistral_windows(const Config& config, DecoderConfig& c) {
    const std::uint32_t usual = is_null(config, "sliding_window") ? 0 : 4096;
    VKFORMER_TRY(const auto window, config.unsigned_integer("sliding_window", {.fallback = usual, .max = 1u << 28}));
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
        if (slides && is_named && !config.has("sliding_window"))
            return config.unsupported("layer_types", "full attention in all layers where there is no sliding_window");
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

/// NTK-aware scaling (bloc97 2023) by a factor of the base; "dynamic" without an alpha, whose base grows with the sequence, is refused.
Result<Rope> read_hunyuan_rope(const Config& config, DecoderConfig& c) {
    VKFORMER_TRY(const RopeSource source, find_rope(config));
    if (source.type != "dynamic" || !source.scaling.has("alpha")) return read_rope(config, c);
    VKFORMER_TRY(const double alpha, source.scaling.real("alpha", {.min = 1e-6, .max = 1e9}));
    if (c.head_dim < 4 || c.head_dim % 2 != 0) return config.unsupported("head_dim", "an even number from 4 on");
    const double dim = c.head_dim;
    return Rope{.frequencies = graph::rope_frequencies(c.head_dim, source.theta * std::pow(alpha, dim / (dim - 2)))};
}

/// What the families make up where a config says nothing.
struct LlamaFamily {
    std::string_view type;
    SizeDefaults sizes = {};
    double theta = 1e4;
    bool ties_head = false, has_attention_bias = false;
};
constexpr LlamaFamily kLlamaFamilies[] = {
    {.type = "llama"},
    {.type = "smollm3", .theta = 2e6, .ties_head = true},
    {.type = "seed_oss", .sizes = {.positions = 524288, .head_dim = 128, .kv_heads = 8}, .has_attention_bias = true},
    {.type = "hunyuan_v1_dense", .sizes = {.norm_eps = 1e-5}},
    {.type = "ernie4_5",
     .sizes = {.positions = 131072, .head_dim = 128, .kv_heads = 2, .norm_eps = 1e-5},
     .theta = 5e5,
     .ties_head = true},
};

}  // namespace

Result<DecoderParts> load_llama(const Config& config, const formats::Weights& weights) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    const auto known = std::ranges::find(kLlamaFamilies, type, &LlamaFamily::type);
    const LlamaFamily& family = known != std::end(kLlamaFamilies) ? *known : kLlamaFamilies[0];
    const bool is_ernie = type == "ernie4_5", is_hunyuan = type == "hunyuan_v1_dense";
    VKFORMER_TRY(const auto pretraining_tp, config.unsigned_integer("pretraining_tp", {.fallback = 1}));
    if (pretraining_tp != 1) return config.unsupported("pretraining_tp", "1");
    DecoderParts parts;
    DecoderConfig& c = parts.config;
    VKFORMER_TRY(c, read_sizes(config, family.sizes));
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "silu"));
    VKFORMER_TRY(Rope rope, is_hunyuan ? read_hunyuan_rope(config, c) : read_rope(config, c, {.theta = family.theta}));
    if (is_ernie) rope.pairing = graph::RopePairing::interleaved;
    c.turns_before_norms = is_hunyuan;
    c.ropes = {std::move(rope)};
    for (auto& layer : c.layers) layer.rope = 0;
    if (type == "mistral") VKFORMER_CHECK(read_mistral_windows(config, c));
    if (type == "smollm3") {
        VKFORMER_CHECK(read_layers_without_rope(config, c));
        VKFORMER_CHECK(read_smollm3_windows(config, c));
    }

    LlamaLayout layout = {.head_norms = is_hunyuan};
    if (is_hunyuan) {
        VKFORMER_TRY(const bool turns, config.boolean("use_rotary_pos_emb", true));
        if (!turns) return config.unsupported("use_rotary_pos_emb", "true");
        layout.query_norm = "query_layernorm";
        layout.key_norm = "key_layernorm";
    }
    VKFORMER_TRY(layout.attention_bias,
                 config.boolean(is_ernie ? "use_bias" : "attention_bias", family.has_attention_bias));
    layout.output_bias = layout.attention_bias;
    if (type == "seed_oss") {
        VKFORMER_TRY(layout.output_bias, config.boolean("attention_out_bias", false));
    }
    if (is_ernie) {
        layout.feed_forward_bias = layout.attention_bias;
    } else if (!is_hunyuan) {
        VKFORMER_TRY(layout.feed_forward_bias, config.boolean("mlp_bias", false));
    }
    VKFORMER_TRY(layout.tied, config.boolean("tie_word_embeddings", family.ties_head));
    VKFORMER_TRY(parts.weights,
                 read_llama_weights(weights, c, layout, find_prefix(weights, "model.", "embed_tokens.weight")));
    return parts;
}

}  // namespace vkformer::models
