// SPDX-License-Identifier: MIT
// Granite 3 (IBM 2024): Llama with factors of its own for embeddings, scores, what layers add and logits; and its mixtures of experts, some
// with an expert of all tokens beside those that are chosen. Granite 4 (2025): the same in a hybrid, most of whose layers are Mamba-2.
// Bamba (IBM, Princeton, CMU and UIUC 2024): the hybrid without the factors, half of a head turned.
#include <algorithm>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

using Mixer = DecoderConfig::Mixer;

/// All experts' gates and their other halves in one tensor, [experts, 2 · intermediate_size, hidden_size].
Result<ExpertWeights> read_granite_experts(const WeightReader& read, const DecoderConfig& c, const std::string& layer) {
    const std::uint64_t count = c.experts.count, d = c.hidden_size, ffn = c.experts.intermediate_size;
    const std::string block = layer + "block_sparse_moe.";
    ExpertWeights w;
    VKFORMER_TRY(w.router, read.tensor(block + "router.layer.weight", {count, d}));
    VKFORMER_TRY(const TensorData both, read.tensor(block + "input_linear.weight", {count, 2 * ffn, d}));
    VKFORMER_TRY(const TensorData down, read.tensor(block + "output_linear.weight", {count, d, ffn}));
    for (std::uint64_t e = 0; e < count; ++e) {
        w.gate.push_back(rows_of_matrix(both, e, 0, ffn));
        w.up.push_back(rows_of_matrix(both, e, ffn, ffn));
    }
    w.down = matrices_of(down);
    return w;
}

/// The expert of all tokens, which no router weighs, or the feed-forward layers of a hybrid that has no others.
Result<void> read_shared_experts(const WeightReader& read, const DecoderConfig& c, DecoderWeights& weights) {
    const std::uint64_t d = c.hidden_size, ffn = c.experts.count > 0 ? c.experts.shared_size : c.intermediate_size;
    for (std::size_t i = 0; i < weights.layers.size(); ++i) {
        const std::string block = "layers." + std::to_string(i) + ".shared_mlp.";
        DecoderWeights::Layer& l = weights.layers[i];
        VKFORMER_TRY(const Projection both, read.projection(block + "input_linear", 2 * ffn, d, false));
        l.gate = rows_of(both, 0, ffn);
        l.up = rows_of(both, ffn, ffn);
        VKFORMER_TRY(l.down, read.projection(block + "output_linear", d, ffn, false));
    }
    return {};
}

Result<void> read_multipliers(const Config& config, DecoderConfig& c) {
    const formats::Expect<double> factor = {.fallback = 1, .min = 1e-3, .max = 1e3};
    VKFORMER_TRY(const double scores, config.real("attention_multiplier", {.fallback = 1, .min = 1e-6, .max = 1e6}));
    VKFORMER_TRY(const double embedding, config.real("embedding_multiplier", factor));
    VKFORMER_TRY(const double residual, config.real("residual_multiplier", factor));
    VKFORMER_TRY(const double logits, config.real("logits_scaling", factor));
    c.attention_scale = static_cast<float>(scores);
    set_multipliers(c, {.embedding = embedding, .residual = residual, .logits = 1 / logits});
    return {};
}

/// What the layers with a state have in common.
Result<void> read_scan(const Config& config, DecoderConfig& c) {
    const auto count = [&](const char* name, std::uint32_t usual, std::uint32_t most) {
        return config.unsigned_integer(name, {.fallback = usual, .min = 1, .max = most});
    };
    DecoderConfig::SelectiveScan& scan = c.scan;
    VKFORMER_TRY(scan.heads, count("mamba_n_heads", 128, 4096));
    VKFORMER_TRY(scan.groups, count("mamba_n_groups", 1, 4096));
    VKFORMER_TRY(scan.state_dim, count("mamba_d_state", 256, 256));
    VKFORMER_TRY(c.taps, config.unsigned_integer("mamba_d_conv", {.fallback = 4, .min = 2, .max = 8}));
    VKFORMER_TRY(const auto expand, count("mamba_expand", 2, 64));
    const std::uint64_t values = std::uint64_t{expand} * c.hidden_size;
    if (values % scan.heads != 0)
        return config.unsupported("mamba_n_heads",
                                  "a divisor of mamba_expand * hidden_size = " + std::to_string(values));
    scan.head_dim = static_cast<std::uint32_t>(values / scan.heads);
    if (const auto name = config.string("mamba_d_head"); !name || *name != "auto") {
        VKFORMER_TRY(const auto head_dim, count("mamba_d_head", scan.head_dim, 1u << 24));
        if (head_dim != scan.head_dim)
            return config.unsupported("mamba_d_head",
                                      std::to_string(scan.head_dim) + ", mamba_expand * hidden_size / mamba_n_heads");
    }
    if (scan.heads % scan.groups != 0)
        return config.unsupported("mamba_n_groups", "a divisor of mamba_n_heads = " + std::to_string(scan.heads));
    if (c.activation != graph::Activation::silu) return config.unsupported("hidden_act", "silu");
    scan.norm_eps = c.norm_eps;
    return read_step_limits(config, "time_step_limit", c);
}

/// Those of a hybrid that attend, of which some families turn positions; without a list, none does.
Result<void> read_hybrid_layers(const Config& config, DecoderConfig& c) {
    const char* const field = config.has("layers_block_type") ? "layers_block_type" : "layer_types";
    VKFORMER_TRY(const auto types, config.strings(field));
    VKFORMER_TRY(const std::string norm, config.string("normalization_function", "rmsnorm"));
    if (norm != "rmsnorm") return config.unsupported("normalization_function", "rmsnorm");
    VKFORMER_TRY(const std::string positions, config.string("position_embedding_type", "nope"));
    if (positions != "rope" && positions != "nope") return config.unsupported("position_embedding_type", "rope, nope");
    if (!types.empty() && types.size() != c.layers.size())
        return Error{ErrorCode::CorruptFile, config.file_name() + ": \"" + field + "\" has " +
                                                 std::to_string(types.size()) + " entries, the model has " +
                                                 std::to_string(c.layers.size()) + " layers"};
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        const bool scans = types.empty() || types[i] == "mamba";
        if (!scans && types[i] != "attention" && types[i] != "full_attention")
            return config.unsupported(field, "attention, mamba");
        c.layers[i].mixer = scans ? Mixer::selective_scan : Mixer::attention;
        if (scans || positions != "rope") c.layers[i].rope.reset();
    }
    return c.keeps_states() ? read_scan(config, c) : Result<void>();
}

/// Those of Bamba that attend; half of a head is turned there, of which transformers asks nothing.
Result<void> read_bamba_layers(const Config& config, DecoderConfig& c, LlamaLayout& layout) {
    VKFORMER_TRY(const auto attending, config.token_ids("attn_layer_indices"));
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        if (std::ranges::find(attending, static_cast<std::int32_t>(i)) != attending.end()) continue;
        c.layers[i].mixer = Mixer::selective_scan;
        c.layers[i].rope.reset();
    }
    VKFORMER_TRY(const auto turned, config.unsigned_integer("attn_rotary_emb", {.fallback = c.head_dim / 2}));
    if (turned != c.head_dim / 2) return config.unsupported("attn_rotary_emb", "half of a head");
    layout.dense = "feed_forward.";
    layout.feed_forward_norm = "pre_ff_layernorm";
    layout.final_norm = "final_layernorm";
    return c.keeps_states() ? read_scan(config, c) : Result<void>();
}

Result<void> read_scan_or_attention(const WeightReader& read, const DecoderConfig& c, const LlamaLayout& layout,
                                    const std::string& layer, std::size_t index, DecoderWeights::Layer& l) {
    if (c.layers[index].mixer == Mixer::attention)
        return read_attention_layer(read, c, layer + "self_attn.", layout, l);
    return read_scan_layer(read, c, layer + "mamba.", layout, l);
}

/// With which experts a config has layers, if any, and which feed-forward layers all tokens go through.
Result<void> read_feed_forward(const Config& config, const std::string& type, DecoderConfig& c, LlamaLayout& layout) {
    const bool is_hybrid = type == "granitemoehybrid", has_shared = is_hybrid || type == "granitemoeshared";
    if (type == "granite" || type == "bamba") {
        VKFORMER_TRY(layout.feed_forward_bias, config.boolean("mlp_bias", false));
        return {};
    }
    std::uint32_t experts = 1, shared = 0;
    if (has_shared) {
        const formats::Expect<std::uint32_t> size = {
            .fallback = is_hybrid ? 1024u : 0u, .min = is_hybrid ? 1u : 0u, .max = 1u << 20};
        VKFORMER_TRY(shared, config.unsigned_integer("shared_intermediate_size", size));
        layout.feed_forward = false;
    }
    if (is_hybrid) {
        VKFORMER_TRY(experts, config.unsigned_integer("num_local_experts", {.fallback = 8}));
    }
    if (experts == 0) {  // what mixtures share is all there is
        c.intermediate_size = shared;
        return {};
    }
    VKFORMER_CHECK(read_expert_counts(config, 8, 2, c));
    c.experts.normalises = true;  // the softmax over the chosen ones' logits
    c.experts.shared_size = shared;
    layout.read_experts = read_granite_experts;
    return {};
}

}  // namespace

void set_multipliers(DecoderConfig& c, const Multipliers& multipliers) {
    const double residual = multipliers.residual;
    c.residual_scale = static_cast<float>(residual);
    c.embedding_scale = static_cast<float>(multipliers.embedding / residual);
    c.norm_eps = static_cast<float>(double{c.norm_eps} / (residual * residual));
    c.logit_scale = static_cast<float>(multipliers.logits);
}

Result<DecoderParts> load_granite(const Config& config, const formats::Weights& weights) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    DecoderParts parts;
    DecoderConfig& c = parts.config;
    VKFORMER_TRY(c, read_sizes(config));
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "silu"));
    for (auto& layer : c.layers) layer.rope = 0;
    LlamaLayout layout;
    VKFORMER_TRY(layout.attention_bias, config.boolean("attention_bias", false));
    VKFORMER_TRY(layout.tied, config.boolean("tie_word_embeddings", false));
    layout.output_bias = layout.attention_bias;
    const bool is_bamba = type == "bamba";
    if (is_bamba || type == "granitemoehybrid") {
        VKFORMER_CHECK(is_bamba ? read_bamba_layers(config, c, layout) : read_hybrid_layers(config, c));
        VKFORMER_TRY(layout.convolution_bias, config.boolean("mamba_conv_bias", true));
        VKFORMER_TRY(layout.projection_bias, config.boolean("mamba_proj_bias", false));
        layout.read_mixer = read_scan_or_attention;
    }
    if (std::ranges::any_of(c.layers, [](const DecoderConfig::Layer& layer) { return layer.rope.has_value(); })) {
        VKFORMER_TRY(const Rope rope,
                     read_rope(config, c, {.turns_part = is_bamba, .turned_part = is_bamba ? 0.5 : 1}));
        if (is_bamba && 4 * rope.frequencies.size() != c.head_dim)
            return config.unsupported("partial_rotary_factor", "0.5");
        c.ropes = {rope};
    }
    if (!is_bamba) VKFORMER_CHECK(read_multipliers(config, c));
    VKFORMER_CHECK(read_feed_forward(config, type, c, layout));
    const std::string prefix = find_prefix(weights, "model.", "embed_tokens.weight");
    VKFORMER_TRY(parts.weights, read_llama_weights(weights, c, layout, prefix));
    if (!layout.feed_forward && (c.experts.count == 0 || c.experts.shared_size > 0))
        VKFORMER_CHECK(read_shared_experts(WeightReader(weights, prefix), c, parts.weights));
    return parts;
}

}  // namespace vkformer::models
