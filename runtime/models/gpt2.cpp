// SPDX-License-Identifier: MIT
// GPT-2 (Radford et al. 2019): layer norms before each part, learned positions, biases everywhere, matrices stored [in, out].
#include <cmath>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

Result<DecoderConfig> read_config(const Config& config) {
    const formats::Expect<std::uint32_t> count = {.min = 1, .max = 1u << 20};
    DecoderConfig c;
    VKFORMER_TRY(c.vocab_size, config.unsigned_integer("vocab_size", {.min = 1, .max = 1u << 24}));
    VKFORMER_TRY(c.hidden_size, config.unsigned_integer("n_embd", count));
    VKFORMER_TRY(c.heads, config.unsigned_integer("n_head", count));
    VKFORMER_TRY(c.max_positions,
                 config.unsigned_integer("n_positions", {.fallback = 1024, .min = 1, .max = 1u << 24}));
    VKFORMER_TRY(const auto layers, config.unsigned_integer("n_layer", {.min = 1, .max = 4096}));
    VKFORMER_TRY(c.intermediate_size,
                 config.unsigned_integer("n_inner", {.fallback = 4 * c.hidden_size, .min = 1, .max = 1u << 22}));
    VKFORMER_TRY(const double eps, config.real("layer_norm_epsilon", {.fallback = 1e-5, .min = 0, .max = 1}));
    VKFORMER_TRY(const bool scales, config.boolean("scale_attn_weights", true));
    VKFORMER_TRY(const bool scales_by_layer, config.boolean("scale_attn_by_inverse_layer_idx", false));
    if (scales_by_layer) return config.unsupported("scale_attn_by_inverse_layer_idx", "false");
    VKFORMER_TRY(const bool has_cross_attention, config.boolean("add_cross_attention", false));
    if (has_cross_attention) return config.unsupported("add_cross_attention", "false");
    if (c.hidden_size % c.heads != 0)
        return config.unsupported("n_head", "a divisor of n_embd = " + std::to_string(c.hidden_size));
    VKFORMER_TRY(c.activation, read_activation(config, "activation_function", "gelu_new"));
    c.norm = DecoderConfig::Norm::layer;
    c.norm_eps = static_cast<float>(eps);
    c.kv_heads = c.heads;
    c.head_dim = c.hidden_size / c.heads;
    c.attention_scale = scales ? 1.0f / std::sqrt(static_cast<float>(c.head_dim)) : 1.0f;
    c.layers.assign(layers, {});
    return c;
}

/// What Hugging Face calls a Conv1D: weight [in, out] and bias.
Result<Projection> conv1d(const WeightReader& read, const std::string& name, std::uint64_t out, std::uint64_t in) {
    Projection p;
    VKFORMER_TRY(const TensorData weight, read.tensor(name + ".weight", {in, out}));
    VKFORMER_TRY(p.weight, transposed(weight));
    VKFORMER_TRY(p.bias, read.tensor(name + ".bias", {out}));
    p.origin = read.origin(name, out);
    return p;
}

}  // namespace

Result<DecoderParts> load_gpt2(const Config& config, const formats::Weights& weights) {
    DecoderParts parts;
    VKFORMER_TRY(parts.config, read_config(config));
    const DecoderConfig& c = parts.config;
    DecoderWeights& w = parts.weights;
    const WeightReader read(weights, find_prefix(weights, "transformer.", "wte.weight"));
    const std::uint64_t d = c.hidden_size;
    VKFORMER_TRY(w.embedding, read.tensor("wte.weight", {c.vocab_size, d}));
    VKFORMER_TRY(w.positions, read.tensor("wpe.weight", {c.max_positions, d}));
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        const std::string layer = "h." + std::to_string(i) + ".";
        DecoderWeights::Layer l;
        VKFORMER_TRY(l.attention_norm, read.norm(layer + "ln_1", d, true));
        VKFORMER_TRY(const Projection joined, conv1d(read, layer + "attn.c_attn", 3 * d, d));
        l.query = rows_of(joined, 0, d);
        l.key = rows_of(joined, d, d);
        l.value = rows_of(joined, 2 * d, d);
        VKFORMER_TRY(l.output, conv1d(read, layer + "attn.c_proj", d, d));
        VKFORMER_TRY(l.feed_forward_norm, read.norm(layer + "ln_2", d, true));
        VKFORMER_TRY(l.up, conv1d(read, layer + "mlp.c_fc", c.intermediate_size, d));
        VKFORMER_TRY(l.down, conv1d(read, layer + "mlp.c_proj", d, c.intermediate_size));
        w.layers.push_back(std::move(l));
    }
    VKFORMER_TRY(w.final_norm, read.norm("ln_f", d, true));
    VKFORMER_TRY(const bool tied, config.boolean("tie_word_embeddings", true));
    const WeightReader whole(weights, "");
    VKFORMER_TRY(w.lm_head.weight, whole.tied_tensor("lm_head.weight", {c.vocab_size, d}, w.embedding, tied));
    w.lm_head.origin = whole.origin("lm_head", c.vocab_size);
    return parts;
}

}  // namespace vkformer::models
