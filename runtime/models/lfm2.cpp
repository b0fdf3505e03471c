// SPDX-License-Identifier: MIT
// LFM2 (Liquid AI 2025, arXiv 2511.23404): gated short convolutions, and attention with a norm on each head of query and key in some layers.
// LFM2-MoE has mixtures of experts behind its first layers.
#include <algorithm>
#include <cmath>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

/// The width of the feed-forward layers is what a config says, or two thirds of it times a factor, rounded up.
Result<std::uint32_t> read_intermediate_size(const Config& config) {
    const char* const name = config.has("block_ff_dim") ? "block_ff_dim" : "intermediate_size";
    const formats::Expect<std::uint32_t> count = {.fallback = 12288, .min = 1, .max = 1u << 20};
    VKFORMER_TRY(const auto size, config.unsigned_integer(name, count));
    VKFORMER_TRY(const bool adjusts, config.boolean("block_auto_adjust_ff_dim", true));
    if (!adjusts) return size;
    VKFORMER_TRY(const double factor,
                 config.real("block_ffn_dim_multiplier", {.fallback = 1, .min = 1e-3, .max = 1e3}));
    VKFORMER_TRY(const auto multiple,
                 config.unsigned_integer("block_multiple_of", {.fallback = 256, .min = 1, .max = 1u << 16}));
    const auto two_thirds = static_cast<std::uint32_t>(2 * std::uint64_t{size} / 3);
    const auto scaled = static_cast<std::uint64_t>(factor * two_thirds);
    return static_cast<std::uint32_t>((scaled + multiple - 1) / multiple * multiple);
}

/// The experts of LFM2-MoE: chosen by their sigmoid and a bias, which does not count in their weights.
Result<void> read_lfm2_routing(const Config& config, DecoderConfig& c) {
    VKFORMER_CHECK(read_expert_counts(config, 32, 4, c));
    const formats::Expect<std::uint32_t> width = {.fallback = 1792, .min = 1, .max = 1u << 20};
    VKFORMER_TRY(c.experts.intermediate_size, config.unsigned_integer("moe_intermediate_size", width));
    VKFORMER_TRY(const auto dense, config.unsigned_integer("num_dense_layers", {.fallback = 2}));
    for (std::size_t i = 0; i < c.layers.size(); ++i) c.layers[i].has_experts = i >= dense;
    set_sigmoid_routing(c, 1e-6f);
    VKFORMER_CHECK(read_expert_weights(config, c));
    return {};
}

/// Without either list, all layers attend.
Result<void> read_layers(const Config& config, DecoderConfig& c) {
    VKFORMER_TRY(std::vector<bool> has_state, read_layer_types(config, c.layers.size(), "conv"));
    VKFORMER_TRY(const auto indices, config.token_ids("full_attn_idxs"));
    const bool is_by_index = !config.has("layer_types") && config.has("full_attn_idxs");
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        if (is_by_index) has_state[i] = std::ranges::find(indices, static_cast<std::int32_t>(i)) == indices.end();
        if (has_state[i])
            c.layers[i].mixer = DecoderConfig::Mixer::convolution;
        else
            c.layers[i].rope = 0;
    }
    return {};
}

Result<DecoderWeights::Layer> read_layer(const WeightReader& read, const DecoderConfig& c, std::size_t index,
                                         bool conv_bias, bool expert_bias) {
    const std::string layer = "layers." + std::to_string(index) + ".", self = layer + "self_attn.",
                      conv = layer + "conv.", feed_forward = layer + "feed_forward.";
    const std::uint64_t d = c.hidden_size, width = std::uint64_t{c.heads} * c.head_dim,
                        kv_width = std::uint64_t{c.kv_heads} * c.head_dim;
    DecoderWeights::Layer l;
    VKFORMER_TRY(l.attention_norm, read.norm(layer + "operator_norm", d));
    if (c.layers[index].mixer == DecoderConfig::Mixer::attention) {
        VKFORMER_TRY(l.query, read.projection(self + "q_proj", width, d, false));
        VKFORMER_TRY(l.key, read.projection(self + "k_proj", kv_width, d, false));
        VKFORMER_TRY(l.value, read.projection(self + "v_proj", kv_width, d, false));
        VKFORMER_TRY(l.output, read.projection(self + "out_proj", d, width, false));
        VKFORMER_TRY(l.query_norm, read.norm(self + "q_layernorm", c.head_dim));
        VKFORMER_TRY(l.key_norm, read.norm(self + "k_layernorm", c.head_dim));
    } else {
        VKFORMER_TRY(l.state.input, read.projection(conv + "in_proj", 3 * d, d, conv_bias));
        VKFORMER_TRY(l.state.taps, read_taps(read, conv + "conv.weight", d, c.taps));
        if (conv_bias) {
            VKFORMER_TRY(l.state.taps_bias, read.tensor(conv + "conv.bias", {d}));
        }
        VKFORMER_TRY(l.output, read.projection(conv + "out_proj", d, d, conv_bias));
    }
    VKFORMER_TRY(l.feed_forward_norm, read.norm(layer + "ffn_norm", d));
    if (c.layers[index].has_experts) {
        constexpr ExpertNames kNames = {.block = "feed_forward.", .gate = "w1", .up = "w3", .down = "w2"};
        VKFORMER_TRY(l.experts, read_experts(read, c, kNames, layer));
        if (expert_bias) {
            VKFORMER_TRY(l.experts.choice_bias, read.tensor(feed_forward + "expert_bias", {c.experts.count}));
        }
        return l;
    }
    VKFORMER_TRY(l.gate, read.projection(feed_forward + "w1", c.intermediate_size, d, false));
    VKFORMER_TRY(l.up, read.projection(feed_forward + "w3", c.intermediate_size, d, false));
    VKFORMER_TRY(l.down, read.projection(feed_forward + "w2", d, c.intermediate_size, false));
    return l;
}

}  // namespace

void set_sigmoid_routing(DecoderConfig& config, float least_sum) {
    config.experts.scores = graph::RouteScores::sigmoid;
    config.experts.least_sum = least_sum;
}

Result<DecoderParts> load_lfm2(const Config& config, const formats::Weights& weights) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    const bool is_mixture = type == "lfm2_moe";
    DecoderParts parts;
    DecoderConfig& c = parts.config;
    const std::uint32_t usual_size = is_mixture ? 7168 : 12288;
    VKFORMER_TRY(c, read_sizes(config, {.positions = 128000, .kv_heads = 8, .intermediate_size = usual_size}));
    bool expert_bias = false;
    if (is_mixture) {
        VKFORMER_CHECK(read_lfm2_routing(config, c));
        VKFORMER_TRY(expert_bias, config.boolean("use_expert_bias", true));
    } else {
        VKFORMER_TRY(c.intermediate_size, read_intermediate_size(config));
    }
    VKFORMER_TRY(const double eps, config.real("norm_eps", {.fallback = 1e-5, .min = 0, .max = 1}));
    c.norm_eps = static_cast<float>(eps);
    VKFORMER_TRY(c.taps, config.unsigned_integer("conv_L_cache", {.fallback = 3, .min = 2, .max = 8}));
    VKFORMER_TRY(const Rope rope, read_rope(config, c, {.theta = 1e6}));
    // The original's name, which transformers 4 lets win and 5 does not read.
    VKFORMER_TRY(const RopeSource source, find_rope(config, {.theta = 1e6}));
    VKFORMER_TRY(const double theta, config.real("theta", {.fallback = source.theta}));
    if (theta != source.theta) return config.unsupported("theta", "the same as rope_theta");
    c.ropes = {rope};
    VKFORMER_CHECK(read_layers(config, c));

    VKFORMER_TRY(const bool conv_bias, config.boolean("conv_bias", false));
    const char* const tie = config.has("tie_embedding") ? "tie_embedding" : "tie_word_embeddings";
    VKFORMER_TRY(const bool is_tied, config.boolean(tie, true));
    const WeightReader read(weights, find_prefix(weights, "model.", "embed_tokens.weight"));
    DecoderWeights& w = parts.weights;
    VKFORMER_TRY(w.embedding, read.tensor("embed_tokens.weight", {c.vocab_size, c.hidden_size}));
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        VKFORMER_TRY(w.layers.emplace_back(), read_layer(read, c, i, conv_bias, expert_bias));
    }
    VKFORMER_TRY(w.final_norm, read.norm("embedding_norm", c.hidden_size));
    const WeightReader whole(weights, "");
    if (is_tied || whole.has("lm_head.weight")) {
        VKFORMER_TRY(w.lm_head.weight,
                     whole.tied_tensor("lm_head.weight", {c.vocab_size, c.hidden_size}, w.embedding, is_tied));
        w.lm_head.origin = whole.origin("lm_head", c.vocab_size);
    }
    return parts;
}

}  // namespace vkformer::models
