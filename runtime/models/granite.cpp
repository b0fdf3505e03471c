// SPDX-License-Identifier: MIT
// Granite 3 (IBM 2024): Llama with factors of its own for embeddings, scores, what layers add and logits; and its mixtures of experts, some
// with an expert of all tokens beside those that are chosen.
#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

enum class Experts : std::uint8_t { none, chosen, chosen_and_shared };

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

/// The expert of all tokens, which no router weighs.
Result<void> read_shared_experts(const WeightReader& read, const DecoderConfig& c, DecoderWeights& weights) {
    const std::uint64_t d = c.hidden_size, ffn = c.experts.shared_size;
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

}  // namespace

void set_multipliers(DecoderConfig& c, const Multipliers& multipliers) {
    const double residual = multipliers.residual;
    c.embedding_scale = static_cast<float>(multipliers.embedding / residual);
    c.norm_eps = static_cast<float>(double{c.norm_eps} / (residual * residual));
    c.logit_scale = static_cast<float>(multipliers.logits);
}

Result<DecoderParts> load_granite(const Config& config, const formats::Weights& weights) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    const Experts kind = type == "granite"      ? Experts::none
                         : type == "granitemoe" ? Experts::chosen
                                                : Experts::chosen_and_shared;
    DecoderParts parts;
    DecoderConfig& c = parts.config;
    VKFORMER_TRY(c, read_sizes(config));
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "silu"));
    VKFORMER_TRY(const Rope rope, read_rope(config, c));
    c.ropes = {rope};
    for (auto& layer : c.layers) layer.rope = 0;
    VKFORMER_CHECK(read_multipliers(config, c));
    LlamaLayout layout;
    VKFORMER_TRY(layout.attention_bias, config.boolean("attention_bias", false));
    VKFORMER_TRY(layout.tied, config.boolean("tie_word_embeddings", false));
    layout.output_bias = layout.attention_bias;
    if (kind == Experts::none) {
        VKFORMER_TRY(layout.feed_forward_bias, config.boolean("mlp_bias", false));
    } else {
        VKFORMER_CHECK(read_expert_counts(config, 8, 2, c));
        c.experts.normalises = true;  // the softmax over the chosen ones' logits
        layout.read_experts = read_granite_experts;
    }
    const std::string prefix = find_prefix(weights, "model.", "embed_tokens.weight");
    VKFORMER_TRY(parts.weights, read_llama_weights(weights, c, layout, prefix));
    if (kind == Experts::chosen_and_shared) {
        VKFORMER_TRY(c.experts.shared_size,
                     config.unsigned_integer("shared_intermediate_size", {.fallback = 0, .max = 1u << 20}));
        if (c.experts.shared_size > 0)
            VKFORMER_CHECK(read_shared_experts(WeightReader(weights, prefix), c, parts.weights));
    }
    return parts;
}

}  // namespace vkformer::models
