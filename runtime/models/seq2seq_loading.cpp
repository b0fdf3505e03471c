// SPDX-License-Identifier: MIT
#include "models/seq2seq_loading.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

constexpr std::uint64_t kMaxPositionElements = std::uint64_t{1} << 28;  // 1 GiB of float32

Result<Seq2SeqConfig::Stack> read_stack(const Config& config, const std::string& name, std::uint32_t d_model) {
    const formats::Expect<std::uint32_t> count = {.min = 1, .max = 1u << 20};
    Seq2SeqConfig::Stack stack;
    const std::string heads = name + "_attention_heads";
    VKFORMER_TRY(stack.layers, config.unsigned_integer(name + "_layers", {.min = 1, .max = 4096}));
    VKFORMER_TRY(stack.heads, config.unsigned_integer(heads, count));
    VKFORMER_TRY(stack.ffn_dim, config.unsigned_integer(name + "_ffn_dim", count));
    if (d_model % stack.heads != 0)
        return config.unsupported(heads, "a divisor of d_model = " + std::to_string(d_model));
    stack.head_dim = d_model / stack.heads;
    return stack;
}

Result<Seq2SeqWeights::Attention> read_attention(const WeightReader& read, const std::string& name, std::uint64_t d,
                                                 bool key_bias) {
    Seq2SeqWeights::Attention w;
    VKFORMER_TRY(w.query, read.projection(name + ".q_proj", d, d, true));
    VKFORMER_TRY(w.key, read.projection(name + ".k_proj", d, d, key_bias));
    VKFORMER_TRY(w.value, read.projection(name + ".v_proj", d, d, true));
    VKFORMER_TRY(w.output, read.projection(name + ".out_proj", d, d, true));
    VKFORMER_TRY(w.norm, read.norm(name + "_layer_norm", d, true));
    return w;
}

Result<Seq2SeqWeights::Layer> read_layer(const WeightReader& read, const std::string& name, std::uint64_t d,
                                         std::uint64_t ffn_dim, bool has_cross, bool key_bias) {
    Seq2SeqWeights::Layer w;
    VKFORMER_TRY(w.self, read_attention(read, name + "self_attn", d, key_bias));
    if (has_cross) {
        VKFORMER_TRY(w.cross, read_attention(read, name + "encoder_attn", d, key_bias));
    }
    VKFORMER_TRY(w.up, read.projection(name + "fc1", ffn_dim, d, true));
    VKFORMER_TRY(w.down, read.projection(name + "fc2", d, ffn_dim, true));
    VKFORMER_TRY(w.feed_forward_norm, read.norm(name + "final_layer_norm", d, true));
    return w;
}

}  // namespace

Result<void> refuse_other_seq2seq(const Config& config, std::span<const std::string_view> architectures,
                                  std::span<const RequiredFlag> flags) {
    VKFORMER_TRY(const auto named, config.strings("architectures"));
    for (const std::string& architecture : named)
        if (std::ranges::find(architectures, architecture) == architectures.end())
            return config.unsupported("architectures", architectures.front());
    constexpr std::array<RequiredFlag, 2> kAlways = {{{"is_encoder_decoder", true}, {"tie_encoder_decoder", false}}};
    for (const auto& list : {std::span<const RequiredFlag>(kAlways), flags}) {
        for (const auto& [name, required] : list) {
            VKFORMER_TRY(const bool value, config.boolean(name, required));
            if (value != required) return config.unsupported(name, required ? "true" : "false");
        }
    }
    for (const std::string_view name : {"pruned_heads", "quantization_config"}) {
        VKFORMER_TRY(const Config object, config.object(name));
        if (!object.is_empty()) return config.unsupported(name, "{}");
    }
    return {};
}

Result<Seq2SeqConfig> read_bart_sizes(const Config& config, const std::string& activation, bool scales) {
    Seq2SeqConfig c;
    VKFORMER_TRY(c.d_model, config.unsigned_integer("d_model", {.min = 1, .max = 1u << 20}));
    VKFORMER_TRY(c.encoder, read_stack(config, "encoder", c.d_model));
    VKFORMER_TRY(c.decoder, read_stack(config, "decoder", c.d_model));
    VKFORMER_TRY(const std::uint32_t vocab, config.unsigned_integer("vocab_size", {.min = 1, .max = 1u << 24}));
    VKFORMER_TRY(const std::uint32_t positions,
                 config.unsigned_integer("max_position_embeddings", {.fallback = 1024, .min = 1, .max = 1u << 20}));
    VKFORMER_TRY(c.activation, read_activation(config, "activation_function", activation));
    VKFORMER_TRY(scales, config.boolean("scale_embedding", scales));
    c.encoder.vocab_size = c.decoder.vocab_size = c.target_vocab = vocab;
    c.encoder.max_positions = c.decoder.max_positions = positions;
    if (scales) c.embedding_scale = std::sqrt(static_cast<float>(c.d_model));
    return c;
}

Result<Seq2SeqWeights> read_bart_layers(const Weights& weights, const Seq2SeqConfig& c, const BartLayout& layout,
                                        const std::string& prefix) {
    const auto read_stack_weights = [&](const std::string& name, const Seq2SeqConfig::Stack& stack,
                                        Seq2SeqWeights::Stack& w) -> Result<void> {
        const WeightReader read(weights, prefix + name + ".");
        if (layout.embedding_norms) {
            VKFORMER_TRY(w.embedding_norm, read.norm("layernorm_embedding", c.d_model, true));
        }
        for (std::uint32_t i = 0; i < stack.layers; ++i) {
            VKFORMER_TRY(auto layer, read_layer(read, "layers." + std::to_string(i) + ".", c.d_model, stack.ffn_dim,
                                                name == "decoder", layout.key_bias));
            w.layers.push_back(std::move(layer));
        }
        if (layout.final_norms) {
            VKFORMER_TRY(w.final_norm, read.norm("layer_norm", c.d_model, true));
        }
        return {};
    };
    Seq2SeqWeights w;
    VKFORMER_CHECK(read_stack_weights("encoder", c.encoder, w.encoder));
    VKFORMER_CHECK(read_stack_weights("decoder", c.decoder, w.decoder));
    return w;
}

Result<void> read_bart_tables(const Config& json, const Weights& weights, const Seq2SeqConfig& c,
                              const std::string& prefix, Seq2SeqWeights& w) {
    const WeightReader read(weights, prefix), read_head(weights, "");
    const Shape shape = {c.encoder.vocab_size, c.d_model};
    const std::string encoders = "encoder.embed_tokens.weight", decoders = "decoder.embed_tokens.weight";
    const std::string shared = read.has("shared.weight") || !read.has(encoders) ? "shared.weight" : encoders;
    VKFORMER_TRY(const bool is_tied, json.boolean("tie_word_embeddings", true));
    VKFORMER_TRY(const TensorData table, read.tensor(shared, shape));
    VKFORMER_TRY(w.encoder.embedding, read.tied_tensor(encoders, shape, table, true));
    VKFORMER_TRY(w.decoder.embedding, read.tied_tensor(decoders, shape, table, is_tied || shared != encoders));
    VKFORMER_TRY(w.lm_head.weight, read_head.tied_tensor("lm_head.weight", shape, table, is_tied));
    VKFORMER_TRY(w.lm_head.bias, read_logits_bias(weights, c.target_vocab));
    return {};
}

Result<TensorData> read_logits_bias(const Weights& weights, std::uint64_t target_vocab) {
    const WeightReader read(weights, "");
    if (!read.has("final_logits_bias")) return TensorData{};
    VKFORMER_TRY(TensorData bias, read.tensor("final_logits_bias", {1, target_vocab}));
    bias.shape = {target_vocab};
    return bias;
}

Result<void> check_positions(std::uint64_t positions, std::uint64_t d_model) {
    if (positions * d_model <= kMaxPositionElements) return {};
    return Error{ErrorCode::UnsupportedConfig,
                 "config.json: \"max_position_embeddings\" is " + std::to_string(positions) + ", at most " +
                     std::to_string(kMaxPositionElements / d_model) + " with this d_model"};
}

Result<void> read_sinusoids(const Weights& weights, const Seq2SeqConfig& c, const std::string& prefix,
                            Seq2SeqWeights& w) {
    VKFORMER_CHECK(check_positions(c.encoder.max_positions, c.d_model));
    const WeightReader read(weights, prefix);
    const Shape shape = {c.encoder.max_positions, c.d_model};
    const TensorData sinusoids = graph::sinusoidal_table(shape[0], shape[1], graph::SinusoidLayout::halves);
    const auto table = [&](const std::string& name) {
        return read.has(name) ? read.tensor(name, shape) : Result<TensorData>(sinusoids);
    };
    VKFORMER_TRY(w.encoder.positions, table("encoder.embed_positions.weight"));
    VKFORMER_TRY(w.decoder.positions, table("decoder.embed_positions.weight"));
    return {};
}

}  // namespace vkformer::models
