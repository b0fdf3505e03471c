// SPDX-License-Identifier: MIT
// Phi-3 and Phi-3.5 mini (Abdin et al. 2024): a Llama whose query, key and value, and whose gate and up, are one matrix each.
#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {
namespace {

Result<DecoderWeights> read_weights(const formats::Weights& weights, const DecoderConfig& c, bool tied) {
    const WeightReader read(weights, find_prefix(weights, "model.", "embed_tokens.weight"));
    const std::uint64_t d = c.hidden_size, ffn = c.intermediate_size;
    const std::uint64_t width = std::uint64_t{c.heads} * c.head_dim, kv_width = std::uint64_t{c.kv_heads} * c.head_dim;
    DecoderWeights w;
    VKFORMER_TRY(w.embedding, read.tensor("embed_tokens.weight", {c.vocab_size, d}));
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        const std::string layer = "layers." + std::to_string(i) + ".";
        DecoderWeights::Layer l;
        VKFORMER_TRY(l.attention_norm, read.norm(layer + "input_layernorm", d));
        VKFORMER_TRY(const Projection joined,
                     read.projection(layer + "self_attn.qkv_proj", width + 2 * kv_width, d, false));
        l.query = rows_of(joined, 0, width);
        l.key = rows_of(joined, width, kv_width);
        l.value = rows_of(joined, width + kv_width, kv_width);
        VKFORMER_TRY(l.output, read.projection(layer + "self_attn.o_proj", d, width, false));
        VKFORMER_TRY(l.feed_forward_norm, read.norm(layer + "post_attention_layernorm", d));
        VKFORMER_TRY(const Projection gate_up, read.projection(layer + "mlp.gate_up_proj", 2 * ffn, d, false));
        l.gate = rows_of(gate_up, 0, ffn);
        l.up = rows_of(gate_up, ffn, ffn);
        VKFORMER_TRY(l.down, read.projection(layer + "mlp.down_proj", d, ffn, false));
        w.layers.push_back(std::move(l));
    }
    VKFORMER_TRY(w.final_norm, read.norm("norm", d));
    const WeightReader whole(weights, "");
    VKFORMER_TRY(w.lm_head.weight, whole.tied_tensor("lm_head.weight", {c.vocab_size, d}, w.embedding, tied));
    w.lm_head.origin = whole.origin("lm_head", c.vocab_size);
    return w;
}

}  // namespace

Result<DecoderParts> load_phi3(const formats::Config& config, const formats::Weights& weights) {
    DecoderParts parts;
    DecoderConfig& c = parts.config;
    VKFORMER_TRY(c, read_sizes(config));
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "silu"));
    VKFORMER_TRY(const Rope rope, read_rope(config, c, {.turns_part = true}));
    VKFORMER_TRY(const auto window, config.unsigned_integer("sliding_window", {.fallback = 0, .max = 1u << 28}));
    c.ropes = {rope};
    for (auto& layer : c.layers) layer = {.window = window, .rope = 0};
    for (const std::string_view name : {"attention_bias", "mlp_bias", "lm_head_bias"}) {
        VKFORMER_TRY(const bool has_bias, config.boolean(name, false));
        if (has_bias) return config.unsupported(name, "false");
    }
    VKFORMER_TRY(const bool tied, config.boolean("tie_word_embeddings", false));
    VKFORMER_TRY(parts.weights, read_weights(weights, c, tied));
    return parts;
}

}  // namespace vkformer::models
