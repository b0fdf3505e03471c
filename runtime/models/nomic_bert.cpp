// SPDX-License-Identifier: MIT
// Encoders of BERT's shape with rotary positions. Nomic BERT (Nussbaum et al. 2024): SwiGLU and no biases but those of the norms, with the
// fields of transformers 5 or those of the published configs. Jina embeddings v3 (Sturua et al. 2024), as transformers 5 has it; the
// low-rank adapters of its tasks are folders of their own (adapter.hpp).
#include <algorithm>
#include <cmath>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"
#include "models/encoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

/// A field under transformers' name or, where that is absent, under the published one.
std::string_view known_name(const Config& config, std::string_view name, std::string_view published) {
    return config.has(name) || !config.has(published) ? name : published;
}

Result<std::uint32_t> count(const Config& config, std::string_view name, std::string_view published) {
    return config.unsigned_integer(known_name(config, name, published), {.min = 1, .max = 1u << 20});
}

/// What the published configs may switch on, and no published model has.
Result<void> refuse_other_nomics(const Config& config) {
    for (const std::string_view name :
         {"prenorm", "parallel_block", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "use_rms_norm", "causal",
          "rotary_emb_interleaved", "scale_attn_by_inverse_layer_idx"}) {
        VKFORMER_TRY(const bool value, config.boolean(name, false));
        if (value) return config.unsupported(name, "false");
    }
    VKFORMER_TRY(const bool scales, config.boolean("scale_attn_weights", true));
    if (!scales) return config.unsupported("scale_attn_weights", "true");
    VKFORMER_TRY(const double fraction, config.real("rotary_emb_fraction", {.fallback = 1}));
    if (fraction != 1) return config.unsupported("rotary_emb_fraction", "1");
    VKFORMER_TRY(const std::string unit, config.string("activation_function", "swiglu"));
    if (unit != "swiglu") return config.unsupported("activation_function", "swiglu");
    for (const std::string_view name : {"num_experts", "rotary_emb_scale_base"})
        if (config.has(name)) return config.unsupported(name, "null");
    VKFORMER_TRY(const std::uint32_t labels, read_labels(config));
    if (labels > 0) return config.unsupported("architectures", "NomicBertModel");
    return {};
}

/// Fields that count by their default where they are absent, which is another in each version of the code that was published with the
/// models.
Result<void> refuse_missing_fields(const Config& config) {
    if (config.has("hidden_size") || !config.has("n_embd")) return {};  // transformers' names
    for (const std::string_view name : {"qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"})
        if (!config.has(name)) return config.unsupported(name, "false");
    if (!config.has("rotary_emb_fraction")) return config.unsupported("rotary_emb_fraction", "1");
    if (!config.has("rotary_emb_base") && !config.has("rope_theta") && !config.has("rope_parameters"))
        return config.unsupported("rotary_emb_base", "a number");
    return {};
}

/// Beyond the positions of its training a published model may stretch its frequencies by how long a text is.
Result<std::uint32_t> read_nomic_positions(const Config& config) {
    VKFORMER_TRY(const auto positions,
                 config.unsigned_integer(known_name(config, "max_position_embeddings", "n_positions"),
                                         {.fallback = 2048, .min = 1, .max = 1u << 20}));
    if (!config.has("rotary_scaling_factor")) return positions;
    VKFORMER_TRY(const auto trained, config.unsigned_integer("max_trained_positions", {.fallback = 2048, .min = 1}));
    return std::min(positions, trained);
}

Result<DecoderConfig> read_nomic_config(const Config& config) {
    VKFORMER_CHECK(refuse_other_encoders(config));
    VKFORMER_CHECK(refuse_other_nomics(config));
    VKFORMER_CHECK(refuse_missing_fields(config));
    DecoderConfig c;
    c.is_causal = false;
    c.norm_place = NormPlace::behind;
    c.norm = DecoderConfig::Norm::layer;
    VKFORMER_TRY(c.vocab_size, config.unsigned_integer("vocab_size", {.min = 1, .max = 1u << 24}));
    VKFORMER_TRY(c.hidden_size, count(config, "hidden_size", "n_embd"));
    VKFORMER_TRY(c.intermediate_size, count(config, "intermediate_size", "n_inner"));
    VKFORMER_TRY(c.heads, count(config, "num_attention_heads", "n_head"));
    VKFORMER_TRY(const std::uint32_t layers, count(config, "num_hidden_layers", "n_layer"));
    VKFORMER_TRY(c.max_positions, read_nomic_positions(config));
    c.kv_heads = c.heads;
    VKFORMER_TRY(c.head_dim,
                 config.unsigned_integer("head_dim", {.fallback = c.hidden_size / c.heads, .min = 1, .max = 1u << 16}));
    if (!config.has("head_dim") && c.hidden_size % c.heads != 0)
        return config.unsupported(known_name(config, "num_attention_heads", "n_head"),
                                  "a divisor of the width = " + std::to_string(c.hidden_size));
    c.attention_scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
    VKFORMER_TRY(const double eps, config.real(known_name(config, "layer_norm_eps", "layer_norm_epsilon"),
                                               {.fallback = 1e-12, .min = 0, .max = 1}));
    c.norm_eps = static_cast<float>(eps);
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "silu"));
    const RopeDefaults defaults = {.theta = 1000, .theta_name = known_name(config, "rope_theta", "rotary_emb_base")};
    VKFORMER_TRY(const Rope rope, read_rope(config, c, defaults));
    c.ropes = {rope};
    c.layers.assign(layers, {.rope = 0});
    return c;
}

Result<DecoderConfig> read_jina_config(const Config& config) {
    VKFORMER_CHECK(refuse_other_encoders(config));
    for (const std::string_view name : {"num_key_value_heads", "head_dim"})
        if (config.has(name)) return config.unsupported(name, "null");
    VKFORMER_TRY(DecoderConfig c, read_sizes(config, {.positions = 8194}));
    c.is_causal = false;
    c.norm_place = NormPlace::behind;
    c.norm = DecoderConfig::Norm::layer;
    VKFORMER_TRY(const double eps, config.real("layer_norm_eps", {.fallback = 1e-5, .min = 0, .max = 1}));
    c.norm_eps = static_cast<float>(eps);
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "gelu"));
    VKFORMER_TRY(const Rope rope, read_rope(config, c, {.theta = 20000}));
    c.ropes = {rope};
    for (auto& layer : c.layers) layer.rope = 0;
    return c;
}

/// What a file calls its tensors: as they were published, which is how transformers 5 saves them too, with one for query, key and value, or
/// as its modules are called. No gate: there is none.
struct RotaryBertNames {
    std::string_view embedding_norm, layer, qkv, output, attention_norm, gate, up, down, feed_forward_norm;
    bool has_biases = false;  ///< of projections
};
constexpr RotaryBertNames kNomicNames = {
    .embedding_norm = "embeddings.LayerNorm",
    .layer = "layers.",
    .qkv = "",
    .output = "self_attn.o_proj",
    .attention_norm = "post_attention_layernorm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
    .feed_forward_norm = "post_mlp_layernorm",
};
constexpr RotaryBertNames kPublishedNomicNames = {
    .embedding_norm = "emb_ln",
    .layer = "encoder.layers.",
    .qkv = "attn.Wqkv",
    .output = "attn.out_proj",
    .attention_norm = "norm1",
    .gate = "mlp.fc12",
    .up = "mlp.fc11",
    .down = "mlp.fc2",
    .feed_forward_norm = "norm2",
};

constexpr RotaryBertNames kJinaNames = {
    .embedding_norm = "embeddings.LayerNorm",
    .layer = "layers.",
    .qkv = "",
    .output = "self_attn.o_proj",
    .attention_norm = "post_attention_layernorm",
    .gate = "",
    .up = "mlp.fc1",
    .down = "mlp.fc2",
    .feed_forward_norm = "post_mlp_layernorm",
    .has_biases = true,
};
constexpr RotaryBertNames kPublishedJinaNames = {
    .embedding_norm = "emb_ln",
    .layer = "encoder.layers.",
    .qkv = "mixer.Wqkv",
    .output = "mixer.out_proj",
    .attention_norm = "norm1",
    .gate = "",
    .up = "mlp.fc1",
    .down = "mlp.fc2",
    .feed_forward_norm = "norm2",
    .has_biases = true,
};

Result<void> read_rotary_qkv(const WeightReader& read, const DecoderConfig& c, const std::string& layer,
                             const RotaryBertNames& names, DecoderWeights::Layer& l) {
    const std::uint64_t d = c.hidden_size, width = std::uint64_t{c.heads} * c.head_dim;
    if (names.qkv.empty()) {
        VKFORMER_TRY(l.query, read.projection(layer + "self_attn.q_proj", width, d, names.has_biases));
        VKFORMER_TRY(l.key, read.projection(layer + "self_attn.k_proj", width, d, names.has_biases));
        VKFORMER_TRY(l.value, read.projection(layer + "self_attn.v_proj", width, d, names.has_biases));
        return {};
    }
    VKFORMER_TRY(const Projection qkv, read.projection(layer + std::string(names.qkv), 3 * width, d, names.has_biases));
    l.query = rows_of(qkv, 0, width);
    l.key = rows_of(qkv, width, width);
    l.value = rows_of(qkv, 2 * width, width);
    return {};
}

Result<DecoderWeights::Layer> read_rotary_layer(const WeightReader& read, const DecoderConfig& c,
                                                const RotaryBertNames& names, std::size_t index) {
    const std::string layer = std::string(names.layer) + std::to_string(index) + ".";
    const auto name = [&](std::string_view part) { return layer + std::string(part); };
    const std::uint64_t d = c.hidden_size, ffn = c.intermediate_size, width = std::uint64_t{c.heads} * c.head_dim;
    DecoderWeights::Layer l;
    VKFORMER_CHECK(read_rotary_qkv(read, c, layer, names, l));
    VKFORMER_TRY(l.output, read.projection(name(names.output), d, width, names.has_biases));
    VKFORMER_TRY(l.attention_norm, read.norm(name(names.attention_norm), d, true));
    if (!names.gate.empty()) {
        VKFORMER_TRY(l.gate, read.projection(name(names.gate), ffn, d, names.has_biases));
    }
    VKFORMER_TRY(l.up, read.projection(name(names.up), ffn, d, names.has_biases));
    VKFORMER_TRY(l.down, read.projection(name(names.down), d, ffn, names.has_biases));
    VKFORMER_TRY(l.feed_forward_norm, read.norm(name(names.feed_forward_norm), d, true));
    return l;
}

/// Of each product of a layer, where its rows stand in files with other names.
void set_other_origins(const RotaryBertNames& names, std::size_t index, DecoderWeights::Layer& l) {
    const auto set = [&](Projection& p, std::string_view name, std::uint64_t part = 0, std::uint64_t parts = 1) {
        if (!p) return;
        const std::uint64_t rows = p.weight.shape[0];
        p.other_origin = {
            .tensor = std::string(names.layer) + std::to_string(index) + "." + std::string(name) + ".weight",
            .rows = parts * rows,
            .ranges = {{part * rows, rows}}};
    };
    const bool is_joined = !names.qkv.empty();
    set(l.query, is_joined ? names.qkv : "self_attn.q_proj", 0, is_joined ? 3 : 1);
    set(l.key, is_joined ? names.qkv : "self_attn.k_proj", is_joined ? 1 : 0, is_joined ? 3 : 1);
    set(l.value, is_joined ? names.qkv : "self_attn.v_proj", is_joined ? 2 : 0, is_joined ? 3 : 1);
    set(l.output, names.output);
    set(l.gate, names.gate);
    set(l.up, names.up);
    set(l.down, names.down);
}

/// `prefix`: of all tensors, in files that have one.
Result<DecoderWeights> read_rotary_weights(const Weights& weights, const DecoderConfig& c, std::uint32_t types,
                                           const std::string& prefix, const RotaryBertNames& in_memory,
                                           const RotaryBertNames& published) {
    const std::string words = "embeddings.word_embeddings.weight";
    const WeightReader read(weights, find_prefix(weights, prefix, words), UnreadBiases::refused);
    const bool is_published = read.has("emb_ln.weight");
    const RotaryBertNames& names = is_published ? published : in_memory;
    DecoderWeights w;
    VKFORMER_TRY(w.embedding, read.tensor(words, {c.vocab_size, c.hidden_size}));
    VKFORMER_TRY(w.types, read.tensor("embeddings.token_type_embeddings.weight", {types, c.hidden_size}));
    VKFORMER_TRY(w.embedding_norm, read.norm(std::string(names.embedding_norm), c.hidden_size, true));
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        VKFORMER_TRY(auto layer, read_rotary_layer(read, c, names, i));
        set_other_origins(is_published ? in_memory : published, i, layer);
        w.layers.push_back(std::move(layer));
    }
    return w;
}

}  // namespace

Result<Encoder> load_nomic_bert(const Config& config, const Weights& weights) {
    DecoderParts parts;
    VKFORMER_TRY(parts.config, read_nomic_config(config));
    VKFORMER_TRY(const auto types, config.unsigned_integer("type_vocab_size", {.fallback = 2, .min = 1, .max = 1024}));
    const std::string prefix = weights.find("bert.embeddings.word_embeddings.weight") ? "bert." : "nomic_bert.";
    VKFORMER_TRY(parts.weights,
                 read_rotary_weights(weights, parts.config, types, prefix, kNomicNames, kPublishedNomicNames));
    EncoderConfig c = encoder_config_of(parts.config);
    c.types = types;
    return encoder_over(std::move(parts), c, {});
}

Result<Encoder> load_jina_embeddings(const Config& config, const Weights& weights) {
    DecoderParts parts;
    VKFORMER_TRY(parts.config, read_jina_config(config));
    VKFORMER_TRY(const auto types, config.unsigned_integer("type_vocab_size", {.fallback = 1, .min = 1, .max = 1024}));
    VKFORMER_TRY(parts.weights,
                 read_rotary_weights(weights, parts.config, types, "roberta.", kJinaNames, kPublishedJinaNames));
    EncoderConfig c = encoder_config_of(parts.config);
    c.types = types;
    VKFORMER_TRY(c.labels, read_labels(config));
    EncoderWeights head;
    if (c.labels > 0) {
        const WeightReader read(weights, "");
        c.head_pooling = graph::Pooling::first;
        VKFORMER_TRY(head.head_dense, read.projection("classifier.dense", c.hidden_size, c.hidden_size, true));
        VKFORMER_TRY(head.head_output, read.projection("classifier.out_proj", c.labels, c.hidden_size, true));
    }
    return encoder_over(std::move(parts), c, std::move(head));
}

}  // namespace vkformer::models
