// SPDX-License-Identifier: MIT
// Mixtures of experts under Llama's names: Mixtral (Jiang et al. 2024), Qwen 2 and 3 (a shared expert in 2, layers without experts in both),
// OLMoE (Muennighoff et al. 2024: norms over all heads of query and key), Phi-3.5-MoE (Abdin et al. 2024: SparseMixer's router), ERNIE 4.5.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {

using formats::Config;

Result<void> read_expert_counts(const Config& config, std::uint32_t count, std::uint32_t per_token, DecoderConfig& c) {
    constexpr std::uint32_t kMost = static_cast<std::uint32_t>(graph::kMostExperts), kMostPerToken = 32;
    const char* const name = config.has("num_local_experts") ? "num_local_experts" : "num_experts";
    VKFORMER_TRY(c.experts.count, config.unsigned_integer(name, {.fallback = count, .min = 1, .max = kMost}));
    VKFORMER_TRY(
        c.experts.per_token,
        config.unsigned_integer("num_experts_per_tok",
                                {.fallback = per_token, .min = 1, .max = std::min(c.experts.count, kMostPerToken)}));
    for (auto& layer : c.layers) layer.has_experts = true;
    c.experts.intermediate_size = c.intermediate_size;
    return {};
}

Result<void> read_expert_weights(const Config& config, DecoderConfig& c) {
    VKFORMER_TRY(c.experts.normalises, config.boolean("norm_topk_prob", true));
    VKFORMER_TRY(const double scale, config.real("routed_scaling_factor", {.fallback = 1, .min = 1e-6, .max = 1e6}));
    c.experts.scale = static_cast<float>(scale);
    return {};
}

Result<void> read_dense_layers(const Config& config, DecoderConfig& c) {
    VKFORMER_TRY(const auto step, config.unsigned_integer("decoder_sparse_step", {.fallback = 1, .min = 1}));
    VKFORMER_TRY(const auto dense, config.token_ids("mlp_only_layers"));
    for (std::size_t i = 0; i < c.layers.size(); ++i)
        c.layers[i].has_experts =
            (i + 1) % step == 0 && std::ranges::find(dense, static_cast<std::int32_t>(i)) == dense.end();
    return {};
}

namespace {

/// What all have in common. Layers turn their positions, see everything and have experts.
Result<DecoderConfig> read_mixture(const Config& config, std::uint32_t count, std::uint32_t per_token, double theta) {
    VKFORMER_TRY(DecoderConfig c, read_sizes(config));
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "silu"));
    VKFORMER_TRY(const Rope rope, read_rope(config, c, {.theta = theta}));
    c.ropes = {rope};
    for (auto& layer : c.layers) layer.rope = 0;
    VKFORMER_CHECK(read_expert_counts(config, count, per_token, c));
    return c;
}

Result<DecoderParts> read_weights(const Config& config, const formats::Weights& weights, DecoderConfig c,
                                  LlamaLayout layout, bool usually_tied = false) {
    DecoderParts parts;
    VKFORMER_TRY(layout.tied, config.boolean("tie_word_embeddings", usually_tied));
    VKFORMER_TRY(parts.weights,
                 read_llama_weights(weights, c, layout, find_prefix(weights, "model.", "embed_tokens.weight")));
    parts.config = std::move(c);
    return parts;
}

/// Qwen 3's window is that of all layers. Of Qwen 2, transformers 4 gives it to all of them or to the last, by how it computes attention, and
/// 5 to every second one of the first, which it writes down.
Result<void> read_windows(const Config& config, bool is_third, DecoderConfig& c) {
    VKFORMER_TRY(const bool uses_window, config.boolean("use_sliding_window", false));
    std::vector<bool> slides(c.layers.size(), is_third);
    if (!is_third) {
        VKFORMER_TRY(slides, read_sliding_layers(config, c.layers.size()));
        if (uses_window && !config.has("layer_types"))
            return config.unsupported("use_sliding_window", "false, or \"layer_types\" that say for which layers");
        if (!uses_window && std::ranges::find(slides, true) != slides.end())
            return config.unsupported("layer_types", "full attention in all layers where use_sliding_window is false");
    }
    if (!uses_window) return {};
    if (is_third && is_null(config, "sliding_window")) return {};
    VKFORMER_TRY(const auto window, read_window(config, slides));
    for (std::size_t i = 0; i < slides.size(); ++i) c.layers[i].window = slides[i] ? window : 0;
    return {};
}

constexpr double kMixtralTheta = 1e6;

/// What Phi-3.5-MoE has that Mixtral has not.
Result<void> read_phimoe(const Config& config, DecoderConfig& c, LlamaLayout& layout) {
    if (c.experts.per_token != 2) return config.unsupported("num_experts_per_tok", "2");
    c.norm = DecoderConfig::Norm::layer;
    c.experts.scores = graph::RouteScores::sparse_mixer;
    VKFORMER_TRY(const double jitter, config.real("router_jitter_noise", {.fallback = 0.01, .min = 0, .max = 1e3}));
    c.experts.jitter = static_cast<float>(jitter);
    VKFORMER_TRY(const RopeSource rope, find_rope(config, {.theta = kMixtralTheta}));
    if (rope.type != "default") {  // scales of its own stand in place of those that follow from the contexts
        if (rope.type != "longrope")
            return rope.scaling.unsupported(rope.scaling.has("rope_type") ? "rope_type" : "type", "default, longrope");
        const formats::Expect<double> scale = {.min = 1e-6, .max = 1e6};
        VKFORMER_TRY(c.ropes.front().scale, rope.scaling.real("short_mscale", scale));
        VKFORMER_TRY(const double extended, rope.scaling.real("long_mscale", scale));
        for (Rope& other : c.extended_ropes) other.scale = extended;
    }
    VKFORMER_TRY(layout.attention_bias, config.boolean("attention_bias", false));
    VKFORMER_TRY(layout.head_bias, config.boolean("lm_head_bias", false));
    layout.output_bias = layout.attention_bias;
    layout.norm_bias = true;
    return {};
}

}  // namespace

Result<DecoderParts> load_mixtral(const Config& config, const formats::Weights& weights) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    const bool is_phi = type == "phimoe";
    VKFORMER_TRY(DecoderConfig c, read_mixture(config, is_phi ? 16 : 8, 2, kMixtralTheta));
    VKFORMER_TRY(const auto window, config.unsigned_integer("sliding_window", {.fallback = 0, .max = 1u << 28}));
    for (auto& layer : c.layers) layer.window = window;
    c.experts.normalises = !is_phi;
    LlamaLayout layout = {.experts = {.block = "block_sparse_moe.", .gate = "w1", .up = "w3", .down = "w2"}};
    if (is_phi) VKFORMER_CHECK(read_phimoe(config, c, layout));
    return read_weights(config, weights, std::move(c), std::move(layout));
}

Result<DecoderParts> load_qwen_moe(const Config& config, const formats::Weights& weights) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    const bool is_third = type == "qwen3_moe";
    VKFORMER_TRY(DecoderConfig c, read_mixture(config, is_third ? 128 : 60, is_third ? 8 : 4, 1e4));
    const formats::Expect<std::uint32_t> width = {.min = 1, .max = 1u << 20};
    VKFORMER_TRY(c.experts.intermediate_size, config.unsigned_integer("moe_intermediate_size", width));
    VKFORMER_TRY(c.experts.normalises, config.boolean("norm_topk_prob", false));
    VKFORMER_CHECK(read_dense_layers(config, c));
    VKFORMER_CHECK(read_windows(config, is_third, c));
    LlamaLayout layout = {.head_norms = is_third};
    if (is_third) {
        VKFORMER_TRY(layout.attention_bias, config.boolean("attention_bias", false));
        layout.output_bias = layout.attention_bias;
    } else {
        VKFORMER_TRY(layout.attention_bias, config.boolean("qkv_bias", true));
        VKFORMER_TRY(c.experts.shared_size, config.unsigned_integer("shared_expert_intermediate_size", width));
    }
    return read_weights(config, weights, std::move(c), std::move(layout));
}

/// ERNIE 4.5 (Baidu 2025): experts chosen with a bias, which all or some of the layers behind the first have, and neighbours turned.
Result<DecoderParts> load_ernie_moe(const Config& config, const formats::Weights& weights) {
    constexpr std::uint32_t kMost = static_cast<std::uint32_t>(graph::kMostExperts), kMostPerToken = 32,
                            kMostLayers = 4096;
    const formats::Expect<std::uint32_t> width = {.fallback = 1536, .min = 1, .max = 1u << 20};
    VKFORMER_TRY(DecoderConfig c, read_sizes(config, {.positions = 131072, .kv_heads = 4, .norm_eps = 1e-5}));
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "silu"));
    VKFORMER_TRY(Rope rope, read_rope(config, c, {.theta = 5e5}));
    rope.pairing = graph::RopePairing::interleaved;
    c.ropes = {std::move(rope)};
    DecoderConfig::Experts& experts = c.experts;
    VKFORMER_TRY(experts.count, config.unsigned_integer("moe_num_experts", {.fallback = 64, .min = 1, .max = kMost}));
    VKFORMER_TRY(
        experts.per_token,
        config.unsigned_integer("moe_k", {.fallback = 6, .min = 1, .max = std::min(experts.count, kMostPerToken)}));
    VKFORMER_TRY(experts.intermediate_size, config.unsigned_integer("moe_intermediate_size", width));
    VKFORMER_TRY(const auto shared, config.unsigned_integer("moe_num_shared_experts", {.fallback = 2, .max = 64}));
    experts.shared_size = shared * experts.intermediate_size;
    experts.normalises = true;
    VKFORMER_TRY(const double least, config.real("moe_norm_min", {.fallback = 1e-12}));
    if (!(least >= 0 && least <= 1e-9))
        return config.unsupported("moe_norm_min", "at most 1e-9, which no sum comes near");
    VKFORMER_TRY(const auto first,
                 config.unsigned_integer("moe_layer_start_index", {.fallback = 1, .max = kMostLayers}));
    VKFORMER_TRY(const auto end,
                 config.integer("moe_layer_end_index", {.fallback = -1, .min = -1, .max = kMostLayers}));
    VKFORMER_TRY(const auto step, config.unsigned_integer("moe_layer_interval", {.fallback = 1, .min = 1}));
    for (std::size_t i = 0; i < c.layers.size(); ++i)
        c.layers[i] = {.rope = 0,
                       .has_experts = (i + 1) % step == 0 && i >= first && (end == -1 || std::cmp_less_equal(i, end))};
    LlamaLayout layout = {.experts = {.choice_bias = "moe_statics.e_score_correction_bias"},
                          .shared_expert = "shared_experts.",
                          .weighs_shared = false};
    VKFORMER_TRY(layout.attention_bias, config.boolean("use_bias", false));
    layout.output_bias = layout.feed_forward_bias = layout.head_bias = layout.attention_bias;
    return read_weights(config, weights, std::move(c), std::move(layout), true);
}

Result<DecoderParts> load_olmoe(const Config& config, const formats::Weights& weights) {
    if (config.has("clip_qkv")) return config.unsupported("clip_qkv", "null");
    if (config.has("sliding_window")) return config.unsupported("sliding_window", "null");
    VKFORMER_TRY(DecoderConfig c, read_mixture(config, 64, 8, 1e4));
    VKFORMER_TRY(c.experts.normalises, config.boolean("norm_topk_prob", false));
    LlamaLayout layout = {.wide_norms = true};
    VKFORMER_TRY(layout.attention_bias, config.boolean("attention_bias", false));
    layout.output_bias = layout.attention_bias;
    return read_weights(config, weights, std::move(c), std::move(layout));
}

}  // namespace vkformer::models
