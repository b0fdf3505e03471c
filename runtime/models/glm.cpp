// SPDX-License-Identifier: MIT
// GLM-4 (Team GLM 2024, arXiv 2406.12793), dense, as of April 2025: norms before and behind both parts of a layer, half of a head turned,
// neighbours together; GLM-4.5 and 4.6 (2025, arXiv 2508.06471): DeepSeek-V3's mixture of experts behind usual attention.
#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {

namespace {

using formats::Config;

/// `layout`: how the weights are called. `further`: layers behind the model's own.
Result<DecoderConfig> read_glm(const Config& config, std::size_t further, LlamaLayout& layout) {
    constexpr SizeDefaults kDense = {.positions = 131072, .head_dim = 128, .kv_heads = 2, .norm_eps = 1.5625e-7},
                           kMixture = {.positions = 131072, .kv_heads = 8, .norm_eps = 1e-5};
    constexpr GroupedMixture kExperts = {.count = 128,
                                         .per_token = 8,
                                         .intermediate_size = 1408,
                                         .shared = 1,
                                         .dense = 1,
                                         .groups = 1,
                                         .kept_groups = 1,
                                         .scale = 1,
                                         .by_sigmoid = true};
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    const bool is_mixture = type == "glm4_moe";
    VKFORMER_TRY(DecoderConfig c, read_sizes(config, is_mixture ? kMixture : kDense));
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "silu"));
    VKFORMER_TRY(Rope rope, read_rope(config, c, {.turns_part = true, .turned_part = 0.5}));
    if (!is_mixture) rope.pairing = graph::RopePairing::interleaved;
    c.ropes = {std::move(rope)};
    c.layers.assign(c.layers.size() + further, {.rope = 0});
    if (is_mixture) {
        VKFORMER_CHECK(read_grouped_mixture(config, kExperts, c));
        VKFORMER_TRY(layout.head_norms, config.boolean("use_qk_norm", false));
        layout.experts.choice_bias = "gate.e_score_correction_bias";
        layout.shared_expert = "shared_experts.";
        layout.weighs_shared = false;
    } else {
        layout.attention_post_norm = "post_self_attn_layernorm";
        layout.feed_forward_post_norm = "post_mlp_layernorm";
        layout.joins_gate_and_up = true;
    }
    VKFORMER_TRY(layout.attention_bias, config.boolean("attention_bias", !is_mixture));
    VKFORMER_TRY(layout.tied, config.boolean("tie_word_embeddings", false));
    return c;
}

std::string glm_prefix(const formats::Weights& weights) {
    return find_prefix(weights, "model.", "embed_tokens.weight");
}

}  // namespace

Result<DecoderParts> load_glm(const Config& config, const formats::Weights& weights) {
    DecoderParts parts;
    LlamaLayout layout;
    VKFORMER_TRY(parts.config, read_glm(config, 0, layout));
    VKFORMER_TRY(parts.weights, read_llama_weights(weights, parts.config, layout, glm_prefix(weights)));
    return parts;
}

Result<DecoderParts> load_glm_head(const Config& config, const formats::Weights& weights, const DecoderWeights& model) {
    DecoderParts parts;
    LlamaLayout layout;
    VKFORMER_TRY(parts.config, read_glm(config, 1, layout));
    VKFORMER_TRY(parts.weights,
                 read_next_layer_head(config, WeightReader(weights, glm_prefix(weights)), layout, model, parts.config));
    return parts;
}

}  // namespace vkformer::models
