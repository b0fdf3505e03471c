// SPDX-License-Identifier: MIT
// ModernBERT (Warner et al. 2024): rotary positions, GeGLU, norms before attention and feed-forward layers (none before the first
// layer's attention), and layers that see a window of neighbours, with a rotary base of their own, between those that see everything.
#include "core/try.hpp"
#include "models/decoder_loading.hpp"
#include "models/encoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

/// A token sees local_attention / 2 neighbours on either side.
Result<void> read_modernbert_windows(const Config& config, DecoderConfig& c) {
    VKFORMER_TRY(const auto local,
                 config.unsigned_integer("local_attention", {.fallback = 128, .min = 1, .max = 1u << 28}));
    VKFORMER_TRY(auto slides, read_sliding_layers(config, c.layers.size()));
    if (!config.has("layer_types")) {
        VKFORMER_TRY(const auto every,
                     config.unsigned_integer("global_attn_every_n_layers", {.fallback = 3, .min = 1}));
        for (std::size_t i = 0; i < slides.size(); ++i) slides[i] = i % every != 0;
    }
    for (std::size_t i = 0; i < slides.size(); ++i) c.layers[i].window = slides[i] ? local / 2 + 1 : 0;
    return {};
}

Result<void> read_modernbert_ropes(const Config& config, DecoderConfig& c) {
    VKFORMER_TRY(
        const Rope global,
        read_rope(config, c, {.theta = 160000, .theta_name = "global_rope_theta", .object = "full_attention"}));
    VKFORMER_TRY(const Rope local,
                 read_rope(config, c, {.theta_name = "local_rope_theta", .object = "sliding_attention"}));
    if (c.extended_positions > 0) return config.unsupported("rope_scaling", "another type than longrope");
    c.ropes = {global, local};
    for (auto& layer : c.layers) layer.rope = layer.window == 0 ? 0 : 1;
    return {};
}

Result<DecoderConfig> read_modernbert_config(const Config& config) {
    VKFORMER_CHECK(refuse_other_encoders(config));
    if (config.has("num_key_value_heads") || config.has("head_dim"))
        return config.unsupported(config.has("head_dim") ? "head_dim" : "num_key_value_heads", "null");
    VKFORMER_TRY(DecoderConfig c, read_sizes(config, {.positions = 8192}));
    c.is_causal = false;
    c.norm = DecoderConfig::Norm::layer;
    VKFORMER_TRY(const double eps, config.real("norm_eps", {.fallback = 1e-5, .min = 0, .max = 1}));
    c.norm_eps = static_cast<float>(eps);
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_activation", "gelu"));
    VKFORMER_CHECK(read_modernbert_windows(config, c));
    VKFORMER_CHECK(read_modernbert_ropes(config, c));
    return c;
}

/// Which of the model's parts have biases.
struct ModernBertBiases {
    bool norm = false, attention = false, feed_forward = false;
};

/// `index` 0 has no norm before its attention. The rows of Wqkv are those of query, key and value; of Wi, those of the gate come first.
Result<DecoderWeights::Layer> read_modernbert_layer(const WeightReader& read, const DecoderConfig& c,
                                                    const ModernBertBiases& biases, std::size_t index) {
    const std::string name = "layers." + std::to_string(index) + ".";
    const std::uint64_t d = c.hidden_size, ffn = c.intermediate_size;
    DecoderWeights::Layer l;
    if (index > 0) {
        VKFORMER_TRY(l.attention_norm, read.norm(name + "attn_norm", d, biases.norm));
    }
    VKFORMER_TRY(const Projection qkv, read.projection(name + "attn.Wqkv", 3 * d, d, biases.attention));
    l.query = rows_of(qkv, 0, d);
    l.key = rows_of(qkv, d, d);
    l.value = rows_of(qkv, 2 * d, d);
    VKFORMER_TRY(l.output, read.projection(name + "attn.Wo", d, d, biases.attention));
    VKFORMER_TRY(l.feed_forward_norm, read.norm(name + "mlp_norm", d, biases.norm));
    VKFORMER_TRY(const Projection inner, read.projection(name + "mlp.Wi", 2 * ffn, d, biases.feed_forward));
    l.gate = rows_of(inner, 0, ffn);
    l.up = rows_of(inner, ffn, ffn);
    VKFORMER_TRY(l.down, read.projection(name + "mlp.Wo", d, ffn, biases.feed_forward));
    return l;
}

Result<DecoderWeights> read_modernbert_weights(const Weights& weights, const DecoderConfig& c,
                                               const ModernBertBiases& biases) {
    const std::string words = "embeddings.tok_embeddings.weight";
    const WeightReader read(weights, find_prefix(weights, "model.", words), UnreadBiases::refused);
    DecoderWeights w;
    VKFORMER_TRY(w.embedding, read.tensor(words, {c.vocab_size, c.hidden_size}));
    VKFORMER_TRY(w.embedding_norm, read.norm("embeddings.norm", c.hidden_size, biases.norm));
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        VKFORMER_TRY(auto layer, read_modernbert_layer(read, c, biases, i));
        w.layers.push_back(std::move(layer));
    }
    VKFORMER_TRY(w.final_norm, read.norm("final_norm", c.hidden_size, biases.norm));
    return w;
}

Result<void> read_modernbert_head(const Config& config, const Weights& weights, bool norm_bias, EncoderConfig& c,
                                  EncoderWeights& head) {
    VKFORMER_TRY(c.labels, read_labels(config));
    if (c.labels == 0) return {};
    VKFORMER_TRY(const std::string pooling, config.string("classifier_pooling", "cls"));
    if (pooling != "cls" && pooling != "mean") return config.unsupported("classifier_pooling", "cls, mean");
    c.head_pooling = pooling == "cls" ? graph::Pooling::first : graph::Pooling::mean;
    VKFORMER_TRY(c.head_activation, read_activation(config, "classifier_activation", "gelu"));
    VKFORMER_TRY(const bool bias, config.boolean("classifier_bias", false));
    const WeightReader read(weights, "", UnreadBiases::refused);
    VKFORMER_TRY(head.head_dense, read.projection("head.dense", c.hidden_size, c.hidden_size, bias));
    VKFORMER_TRY(head.head_norm, read.norm("head.norm", c.hidden_size, norm_bias));
    VKFORMER_TRY(head.head_output, read.projection("classifier", c.labels, c.hidden_size, true));
    return {};
}

}  // namespace

Result<Encoder> load_modernbert(const Config& config, const Weights& weights) {
    DecoderParts parts;
    VKFORMER_TRY(parts.config, read_modernbert_config(config));
    ModernBertBiases biases;
    VKFORMER_TRY(biases.norm, config.boolean("norm_bias", false));
    VKFORMER_TRY(biases.attention, config.boolean("attention_bias", false));
    VKFORMER_TRY(biases.feed_forward, config.boolean("mlp_bias", false));
    VKFORMER_TRY(parts.weights, read_modernbert_weights(weights, parts.config, biases));
    EncoderConfig c = encoder_config_of(parts.config);
    EncoderWeights head;
    VKFORMER_CHECK(read_modernbert_head(config, weights, biases.norm, c, head));
    return encoder_over(std::move(parts), c, std::move(head));
}

}  // namespace vkformer::models
