// SPDX-License-Identifier: MIT
// DistilBERT (Sanh et al. 2019): BERT without token types, under names of its own.
#include "core/try.hpp"
#include "models/encoder_loading.hpp"

namespace vkformer::models {
namespace {

constexpr EncoderNames kDistilbertNames = {
    .prefix = "distilbert.",
    .words = "embeddings.word_embeddings.weight",
    .positions = "embeddings.position_embeddings.weight",
    .types = "",
    .embedding_norm = "embeddings.LayerNorm",
    .layer = "transformer.layer.",
    .query = "attention.q_lin",
    .key = "attention.k_lin",
    .value = "attention.v_lin",
    .output = "attention.out_lin",
    .attention_norm = "sa_layer_norm",
    .up = "ffn.lin1",
    .down = "ffn.lin2",
    .feed_forward_norm = "output_layer_norm",
    .head_dense = "pre_classifier",
    .head_output = "classifier",
};

/// A field under DistilBERT's name or, where that is absent, under BERT's.
Result<std::uint32_t> count_of_either(const formats::Config& config, std::string_view name, std::string_view other) {
    return config.unsigned_integer(config.has(name) ? name : other, {.min = 1, .max = 1u << 20});
}

}  // namespace

Result<Encoder> load_distilbert(const formats::Config& config, const formats::Weights& weights) {
    VKFORMER_CHECK(refuse_other_encoders(config));
    EncoderConfig c;
    VKFORMER_TRY(c.vocab_size, config.unsigned_integer("vocab_size", {.min = 1, .max = 1u << 24}));
    VKFORMER_TRY(c.hidden_size, count_of_either(config, "dim", "hidden_size"));
    VKFORMER_TRY(c.intermediate_size, count_of_either(config, "hidden_dim", "intermediate_size"));
    VKFORMER_TRY(c.layers, count_of_either(config, "n_layers", "num_hidden_layers"));
    VKFORMER_TRY(c.heads, count_of_either(config, "n_heads", "num_attention_heads"));
    VKFORMER_TRY(c.max_positions,
                 config.unsigned_integer("max_position_embeddings", {.fallback = 512, .min = 1, .max = 1u << 20}));
    VKFORMER_TRY(c.activation, read_activation(config, "activation", "gelu"));
    VKFORMER_TRY(c.labels, read_labels(config));
    c.head_activation = graph::Activation::relu;
    c.norm_eps = 1e-12f;  // not in its config
    if (c.hidden_size % c.heads != 0)
        return config.unsupported("n_heads", "a divisor of dim = " + std::to_string(c.hidden_size));
    VKFORMER_TRY(EncoderWeights w, read_encoder_weights(weights, c, kDistilbertNames));
    return Encoder(c, std::move(w));
}

}  // namespace vkformer::models
