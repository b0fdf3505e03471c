// SPDX-License-Identifier: MIT
// Decoders with layer norms and feed-forward layers without gates, which differ in names and in where what stands:
//   GPT-2 (Radford et al. 2019): learned positions, matrices stored [in, out];
//   OPT (Zhang et al. 2022): learned positions behind two unused rows, ReLU, norms before each part or behind it;
//   GPT-NeoX (Black et al. 2022), Pythia (Biderman et al. 2023): both parts side by side, each behind a norm, part of each head turned;
//   GPT-J (Wang and Komatsuzaki 2021): both parts side by side behind one norm, neighbours turned, a bias of the logits;
//   Phi-1, 1.5 and 2 (Gunasekar et al. 2023, Li et al. 2023): the same with biases everywhere, halves turned;
//   StarCoder2 (Lozhkov et al. 2024): one part after the other, positions turned, windows.
#include <cmath>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

/// Fields of config.json.
struct PlainFields {
    std::string_view hidden = "hidden_size", heads = "num_attention_heads", layers = "num_hidden_layers",
                     positions = "max_position_embeddings", inner = "intermediate_size";
    std::uint32_t usual_positions = 2048;
    bool has_usual_inner = false;  ///< 4 · hidden, where nothing is said
};

/// Names of tensors; of a layer's behind `layers` and its number.
struct PlainNames {
    std::string_view prefix;  ///< which some files leave out
    std::string_view embedding, positions = {}, layers = "layers.";
    std::uint32_t unused_positions = 0;  ///< rows before the first
    std::string_view attention_norm, joined = {}, query = {}, key = {}, value = {}, output, query_norm = {},
                                     key_norm = {};
    bool is_joined_by_head = false;              ///< rows of each head's query, key and value, one head after the other
    std::string_view feed_forward_norm = {};     ///< empty: attention_norm
    std::string_view up, down, final_norm = {};  ///< no final_norm: there is none
    std::string_view head = "lm_head";
    bool is_transposed = false;  ///< matrices are stored [in, out]
};

struct PlainBiases {
    bool attention = true, output = true, feed_forward = true, head = false;
};

/// Sizes under other names than read_sizes knows them by.
Result<DecoderConfig> read_plain_sizes(const Config& config, const PlainFields& fields) {
    const formats::Expect<std::uint32_t> count = {.min = 1, .max = 1u << 20};
    DecoderConfig c;
    VKFORMER_TRY(c.vocab_size, config.unsigned_integer("vocab_size", {.min = 1, .max = 1u << 24}));
    VKFORMER_TRY(c.hidden_size, config.unsigned_integer(fields.hidden, count));
    VKFORMER_TRY(c.heads, config.unsigned_integer(fields.heads, count));
    VKFORMER_TRY(
        c.max_positions,
        config.unsigned_integer(fields.positions, {.fallback = fields.usual_positions, .min = 1, .max = 1u << 24}));
    VKFORMER_TRY(const auto layers, config.unsigned_integer(fields.layers, {.min = 1, .max = 4096}));
    formats::Expect<std::uint32_t> inner = {.min = 1, .max = 1u << 22};
    if (fields.has_usual_inner) inner.fallback = 4 * c.hidden_size;
    VKFORMER_TRY(c.intermediate_size, config.unsigned_integer(fields.inner, inner));
    if (c.hidden_size % c.heads != 0)
        return config.unsupported(fields.heads,
                                  "a divisor of " + std::string(fields.hidden) + " = " + std::to_string(c.hidden_size));
    c.kv_heads = c.heads;
    c.head_dim = c.hidden_size / c.heads;
    c.attention_scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
    c.layers.assign(layers, {});
    return c;
}

Result<void> read_plain_norm(const Config& config, std::string_view eps_field, DecoderConfig& c) {
    VKFORMER_TRY(const double eps, config.real(eps_field, {.fallback = 1e-5, .min = 0, .max = 1}));
    c.norm = DecoderConfig::Norm::layer;
    c.norm_eps = static_cast<float>(eps);
    return {};
}

void turn_all_layers(DecoderConfig& c, Rope rope) {
    c.ropes = {std::move(rope)};
    for (DecoderConfig::Layer& layer : c.layers) layer.rope = 0;
}

class PlainReader {
public:
    PlainReader(const formats::Weights& weights, const DecoderConfig& config, const PlainNames& names,
                const PlainBiases& biases)
        : config_(config),
          names_(names),
          biases_(biases),
          read_(weights, find_prefix(weights, std::string(names.prefix), std::string(names.embedding) + ".weight")),
          whole_(weights, "") {}

    Result<DecoderWeights> read(bool is_tied) const {
        const std::uint64_t d = config_.hidden_size, vocab = config_.vocab_size;
        DecoderWeights w;
        VKFORMER_TRY(w.embedding, read_.tensor(std::string(names_.embedding) + ".weight", {vocab, d}));
        if (!names_.positions.empty()) {
            const std::uint64_t unused = names_.unused_positions;
            VKFORMER_TRY(const TensorData table,
                         read_.tensor(std::string(names_.positions) + ".weight", {config_.max_positions + unused, d}));
            w.positions = rows_of(table, unused, config_.max_positions);
        }
        for (std::size_t i = 0; i < config_.layers.size(); ++i) {
            VKFORMER_TRY(w.layers.emplace_back(), layer(std::string(names_.layers) + std::to_string(i) + "."));
        }
        if (!names_.final_norm.empty()) {
            VKFORMER_TRY(w.final_norm, read_.norm(std::string(names_.final_norm), d, true));
        }
        const std::string head(names_.head);
        VKFORMER_TRY(w.lm_head.weight, whole_.tied_tensor(head + ".weight", {vocab, d}, w.embedding, is_tied));
        VKFORMER_TRY(w.lm_head.bias, whole_.bias(head + ".bias", vocab, biases_.head));
        w.lm_head.origin = whole_.origin(head, vocab);
        return w;
    }

private:
    /// What Hugging Face calls a Conv1D where matrices are transposed.
    Result<Projection> projection(const std::string& name, std::uint64_t out, std::uint64_t in, bool has_bias) const {
        if (!names_.is_transposed) return read_.projection(name, out, in, has_bias);
        Projection p;
        VKFORMER_TRY(const TensorData weight, read_.tensor(name + ".weight", {in, out}));
        VKFORMER_TRY(p.weight, transposed(weight));
        VKFORMER_TRY(p.bias, read_.tensor(name + ".bias", {out}));
        p.origin = read_.origin(name, out);
        return p;
    }

    Result<void> read_heads(const std::string& layer, DecoderWeights::Layer& l) const {
        const std::uint64_t d = config_.hidden_size, head = config_.head_dim, width = config_.heads * head,
                            kv_width = config_.kv_heads * head;
        if (names_.joined.empty()) {
            VKFORMER_TRY(l.query, projection(layer + std::string(names_.query), width, d, biases_.attention));
            VKFORMER_TRY(l.key, projection(layer + std::string(names_.key), kv_width, d, biases_.attention));
            VKFORMER_TRY(l.value, projection(layer + std::string(names_.value), kv_width, d, biases_.attention));
        } else {
            VKFORMER_TRY(const Projection all,
                         projection(layer + std::string(names_.joined), 3 * width, d, biases_.attention));
            Projection* const parts[] = {&l.query, &l.key, &l.value};
            if (names_.is_joined_by_head) {
                auto apart = ungrouped(all, config_.heads, {head, head, head});
                for (std::size_t i = 0; i < 3; ++i) *parts[i] = std::move(apart[i]);
            } else {
                for (std::size_t i = 0; i < 3; ++i) *parts[i] = rows_of(all, i * width, width);
            }
        }
        if (!names_.query_norm.empty()) {
            VKFORMER_TRY(l.query_norm, read_.norm(layer + std::string(names_.query_norm), head, true));
            VKFORMER_TRY(l.key_norm, read_.norm(layer + std::string(names_.key_norm), head, true));
        }
        VKFORMER_TRY(l.output, projection(layer + std::string(names_.output), d, width, biases_.output));
        return {};
    }

    Result<DecoderWeights::Layer> layer(const std::string& layer) const {
        const std::uint64_t d = config_.hidden_size, ffn = config_.intermediate_size;
        DecoderWeights::Layer l;
        VKFORMER_TRY(l.attention_norm, read_.norm(layer + std::string(names_.attention_norm), d, true));
        VKFORMER_CHECK(read_heads(layer, l));
        l.feed_forward_norm = l.attention_norm;
        if (!names_.feed_forward_norm.empty()) {
            VKFORMER_TRY(l.feed_forward_norm, read_.norm(layer + std::string(names_.feed_forward_norm), d, true));
        }
        VKFORMER_TRY(l.up, projection(layer + std::string(names_.up), ffn, d, biases_.feed_forward));
        VKFORMER_TRY(l.down, projection(layer + std::string(names_.down), d, ffn, biases_.feed_forward));
        return l;
    }

    const DecoderConfig& config_;
    const PlainNames& names_;
    const PlainBiases biases_;
    const WeightReader read_, whole_;
};

Result<DecoderParts> read_plain(const Config& config, const formats::Weights& weights, DecoderConfig c,
                                const PlainNames& names, const PlainBiases& biases, bool usually_tied) {
    DecoderParts parts{.config = std::move(c)};
    VKFORMER_TRY(const bool is_tied, config.boolean("tie_word_embeddings", usually_tied));
    VKFORMER_TRY(parts.weights, PlainReader(weights, parts.config, names, biases).read(is_tied));
    return parts;
}

}  // namespace

Result<DecoderParts> load_gpt2(const Config& config, const formats::Weights& weights) {
    static constexpr PlainFields kFields = {.hidden = "n_embd",
                                            .heads = "n_head",
                                            .layers = "n_layer",
                                            .positions = "n_positions",
                                            .inner = "n_inner",
                                            .usual_positions = 1024,
                                            .has_usual_inner = true};
    static constexpr PlainNames kNames = {.prefix = "transformer.",
                                          .embedding = "wte",
                                          .positions = "wpe",
                                          .layers = "h.",
                                          .attention_norm = "ln_1",
                                          .joined = "attn.c_attn",
                                          .output = "attn.c_proj",
                                          .feed_forward_norm = "ln_2",
                                          .up = "mlp.c_fc",
                                          .down = "mlp.c_proj",
                                          .final_norm = "ln_f",
                                          .is_transposed = true};
    VKFORMER_TRY(DecoderConfig c, read_plain_sizes(config, kFields));
    VKFORMER_CHECK(read_plain_norm(config, "layer_norm_epsilon", c));
    VKFORMER_TRY(c.activation, read_activation(config, "activation_function", "gelu_new"));
    VKFORMER_TRY(const bool scales, config.boolean("scale_attn_weights", true));
    if (!scales) c.attention_scale = 1;
    for (const char* const field : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"}) {
        VKFORMER_TRY(const bool is_asked, config.boolean(field, false));
        if (is_asked) return config.unsupported(field, "false");
    }
    return read_plain(config, weights, std::move(c), kNames, {}, true);
}

Result<DecoderParts> load_opt(const Config& config, const formats::Weights& weights) {
    static constexpr PlainFields kFields = {.inner = "ffn_dim"};
    PlainNames names = {.prefix = "model.decoder.",
                        .embedding = "embed_tokens",
                        .positions = "embed_positions",
                        .unused_positions = 2,  // as fairseq counts them
                        .attention_norm = "self_attn_layer_norm",
                        .query = "self_attn.q_proj",
                        .key = "self_attn.k_proj",
                        .value = "self_attn.v_proj",
                        .output = "self_attn.out_proj",
                        .feed_forward_norm = "final_layer_norm",
                        .up = "fc1",
                        .down = "fc2",
                        .final_norm = "final_layer_norm"};
    if (weights.find("decoder.embed_tokens.weight")) names.prefix = "decoder.";
    VKFORMER_TRY(DecoderConfig c, read_plain_sizes(config, kFields));
    c.norm = DecoderConfig::Norm::layer;
    VKFORMER_TRY(c.activation, read_activation(config, "activation_function", "relu"));
    VKFORMER_TRY(const auto embedded, config.unsigned_integer("word_embed_proj_dim", {.fallback = c.hidden_size}));
    if (embedded != c.hidden_size)
        return config.unsupported("word_embed_proj_dim", "hidden_size = " + std::to_string(c.hidden_size));
    VKFORMER_TRY(const bool has_gains, config.boolean("layer_norm_elementwise_affine", true));
    if (!has_gains) return config.unsupported("layer_norm_elementwise_affine", "true");
    VKFORMER_TRY(const bool norms_before, config.boolean("do_layer_norm_before", true));
    VKFORMER_TRY(const bool lacks_final_norm, config.boolean("_remove_final_layer_norm", false));
    if (!norms_before) c.norm_place = NormPlace::behind;
    if (!norms_before || lacks_final_norm) names.final_norm = {};
    VKFORMER_TRY(const bool has_bias, config.boolean("enable_bias", true));
    return read_plain(config, weights, std::move(c), names,
                      {.attention = has_bias, .output = has_bias, .feed_forward = has_bias}, true);
}

Result<DecoderParts> load_gpt_neox(const Config& config, const formats::Weights& weights) {
    static constexpr PlainNames kNames = {.prefix = "gpt_neox.",
                                          .embedding = "embed_in",
                                          .attention_norm = "input_layernorm",
                                          .joined = "attention.query_key_value",
                                          .output = "attention.dense",
                                          .is_joined_by_head = true,
                                          .feed_forward_norm = "post_attention_layernorm",
                                          .up = "mlp.dense_h_to_4h",
                                          .down = "mlp.dense_4h_to_h",
                                          .final_norm = "final_layer_norm",
                                          .head = "embed_out"};
    VKFORMER_TRY(DecoderConfig c, read_sizes(config));
    if (c.kv_heads != c.heads) return config.unsupported("num_key_value_heads", "num_attention_heads");
    VKFORMER_CHECK(read_plain_norm(config, "layer_norm_eps", c));
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "gelu"));
    VKFORMER_TRY(c.is_parallel, config.boolean("use_parallel_residual", true));
    VKFORMER_TRY(const bool has_bias, config.boolean("attention_bias", true));
    VKFORMER_TRY(const double turned, config.real("rotary_pct", {.fallback = 0.25, .min = 0, .max = 1}));
    VKFORMER_TRY(const double again, config.real("partial_rotary_factor", {.fallback = turned, .min = 0, .max = 1}));
    if (again != turned) return config.unsupported("partial_rotary_factor", "rotary_pct again");
    VKFORMER_TRY(Rope rope,
                 read_rope(config, c, {.theta_name = "rotary_emb_base", .turns_part = true, .turned_part = turned}));
    turn_all_layers(c, std::move(rope));
    return read_plain(config, weights, std::move(c), kNames, {.attention = has_bias, .output = has_bias}, false);
}

Result<DecoderParts> load_gptj(const Config& config, const formats::Weights& weights) {
    static constexpr PlainFields kFields = {.hidden = "n_embd",
                                            .heads = "n_head",
                                            .layers = "n_layer",
                                            .positions = "n_positions",
                                            .inner = "n_inner",
                                            .has_usual_inner = true};
    static constexpr PlainNames kNames = {.prefix = "transformer.",
                                          .embedding = "wte",
                                          .layers = "h.",
                                          .attention_norm = "ln_1",
                                          .query = "attn.q_proj",
                                          .key = "attn.k_proj",
                                          .value = "attn.v_proj",
                                          .output = "attn.out_proj",
                                          .up = "mlp.fc_in",
                                          .down = "mlp.fc_out",
                                          .final_norm = "ln_f"};
    VKFORMER_TRY(DecoderConfig c, read_plain_sizes(config, kFields));
    VKFORMER_CHECK(read_plain_norm(config, "layer_norm_epsilon", c));
    VKFORMER_TRY(c.activation, read_activation(config, "activation_function", "gelu_new"));
    VKFORMER_TRY(const auto turned, config.unsigned_integer("rotary_dim", {.fallback = 64, .min = 2, .max = 1u << 16}));
    if (turned % 2 != 0 || turned > c.head_dim)
        return config.unsupported("rotary_dim", "an even number up to n_embd / n_head = " + std::to_string(c.head_dim));
    c.is_parallel = true;
    turn_all_layers(
        c, {.frequencies = graph::rope_frequencies(turned, 10000), .pairing = graph::RopePairing::interleaved});
    return read_plain(config, weights, std::move(c), kNames, {.attention = false, .output = false, .head = true},
                      false);
}

Result<DecoderParts> load_phi(const Config& config, const formats::Weights& weights) {
    PlainNames names = {.prefix = "model.",
                        .embedding = "embed_tokens",
                        .attention_norm = "input_layernorm",
                        .query = "self_attn.q_proj",
                        .key = "self_attn.k_proj",
                        .value = "self_attn.v_proj",
                        .output = "self_attn.dense",
                        .up = "mlp.fc1",
                        .down = "mlp.fc2",
                        .final_norm = "final_layernorm"};
    VKFORMER_TRY(DecoderConfig c, read_sizes(config));
    VKFORMER_CHECK(read_plain_norm(config, "layer_norm_eps", c));
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "gelu_new"));
    VKFORMER_TRY(const bool norms_heads, config.boolean("qk_layernorm", false));
    if (norms_heads) {
        names.query_norm = "self_attn.q_layernorm";
        names.key_norm = "self_attn.k_layernorm";
    }
    VKFORMER_TRY(Rope rope, read_rope(config, c, {.turns_part = true, .turned_part = 0.5}));
    c.is_parallel = true;
    turn_all_layers(c, std::move(rope));
    return read_plain(config, weights, std::move(c), names, {.head = true}, false);
}

Result<DecoderParts> load_starcoder2(const Config& config, const formats::Weights& weights) {
    static constexpr PlainNames kNames = {.prefix = "model.",
                                          .embedding = "embed_tokens",
                                          .attention_norm = "input_layernorm",
                                          .query = "self_attn.q_proj",
                                          .key = "self_attn.k_proj",
                                          .value = "self_attn.v_proj",
                                          .output = "self_attn.o_proj",
                                          .feed_forward_norm = "post_attention_layernorm",
                                          .up = "mlp.c_fc",
                                          .down = "mlp.c_proj",
                                          .final_norm = "norm"};
    VKFORMER_TRY(DecoderConfig c, read_sizes(config, {.positions = 4096, .kv_heads = 2}));
    VKFORMER_CHECK(read_plain_norm(config, "norm_epsilon", c));
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "gelu_pytorch_tanh"));
    VKFORMER_TRY(const bool has_bias, config.boolean("use_bias", true));
    VKFORMER_TRY(const auto window,
                 config.unsigned_integer("sliding_window", {.fallback = 0, .min = 1, .max = 1u << 28}));
    VKFORMER_TRY(Rope rope, read_rope(config, c));
    turn_all_layers(c, std::move(rope));
    for (DecoderConfig::Layer& layer : c.layers) layer.window = window;
    return read_plain(config, weights, std::move(c), kNames,
                      {.attention = has_bias, .output = has_bias, .feed_forward = has_bias}, true);
}

}  // namespace vkformer::models
