// SPDX-License-Identifier: MIT
#include "models/encoder_loading.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "core/try.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

Result<EncoderLayerWeights> read_layer(const WeightReader& read, const EncoderConfig& c, const EncoderNames& names,
                                       std::uint32_t index) {
    const auto name = [&](std::string_view part) {
        return std::string(names.layer) + std::to_string(index) + "." + std::string(part);
    };
    const std::uint64_t d = c.hidden_size, inner = c.intermediate_size;
    EncoderLayerWeights l;
    VKFORMER_TRY(l.query, read.projection(name(names.query), d, d, true));
    VKFORMER_TRY(l.key, read.projection(name(names.key), d, d, true));
    VKFORMER_TRY(l.value, read.projection(name(names.value), d, d, true));
    VKFORMER_TRY(l.output, read.projection(name(names.output), d, d, true));
    VKFORMER_TRY(l.attention_norm, read.norm(name(names.attention_norm), d, true));
    VKFORMER_TRY(l.up, read.projection(name(names.up), inner, d, true));
    VKFORMER_TRY(l.down, read.projection(name(names.down), d, inner, true));
    VKFORMER_TRY(l.feed_forward_norm, read.norm(name(names.feed_forward_norm), d, true));
    return l;
}

/// The table of positions from `first` on. Its rows need not be as many as config.json says: they are what there is.
Result<TensorData> read_positions(const WeightReader& read, const EncoderConfig& c, const EncoderNames& names,
                                  std::uint32_t first) {
    const std::string name(names.positions);
    VKFORMER_TRY(const TensorData table, read.tensor(name, {std::uint64_t{c.max_positions} + first, c.embedding_size}));
    return rows_of(table, first, c.max_positions);
}

}  // namespace

Result<EncoderWeights> read_encoder_weights(const Weights& weights, EncoderConfig& c, const EncoderNames& names,
                                            std::uint32_t first_position) {
    const WeightReader read(weights, find_prefix(weights, std::string(names.prefix), std::string(names.words)));
    const std::uint64_t d = c.hidden_size;
    if (c.embedding_size == 0) c.embedding_size = c.hidden_size;
    EncoderWeights w;
    VKFORMER_TRY(w.embedding, read.tensor(std::string(names.words), {c.vocab_size, c.embedding_size}));
    c.max_positions -= first_position;
    if (!names.positions.empty()) {
        VKFORMER_TRY(w.positions, read_positions(read, c, names, first_position));
    }
    if (c.types > 0) {
        VKFORMER_TRY(w.types, read.tensor(std::string(names.types), {c.types, c.embedding_size}));
    }
    VKFORMER_TRY(w.embedding_norm, read.norm(std::string(names.embedding_norm), d, true));
    for (std::uint32_t layer = 0; layer < c.layers; ++layer) {
        VKFORMER_TRY(auto l, read_layer(read, c, names, layer));
        w.layers.push_back(std::move(l));
    }
    if (c.labels > 0) {
        const WeightReader whole(weights, "");
        if (!names.head_dense.empty()) {
            VKFORMER_TRY(w.head_dense, whole.projection(std::string(names.head_dense), d, d, true));
        }
        VKFORMER_TRY(w.head_output, whole.projection(std::string(names.head_output), c.labels, d, true));
    }
    return w;
}

// ---- config ---------------------------------------------------------------------------------------------------------

Result<std::uint32_t> read_labels(const Config& config) {
    VKFORMER_TRY(const auto architectures, config.strings("architectures"));
    const bool has_head = std::ranges::any_of(
        architectures, [](const std::string& name) { return name.ends_with("ForSequenceClassification"); });
    if (!has_head) return 0u;
    VKFORMER_TRY(const Config names, config.object("id2label"));
    if (const std::size_t labels = names.names().size(); labels > 0) return static_cast<std::uint32_t>(labels);
    const char* const field = config.has("_num_labels") ? "_num_labels" : "num_labels";  // old and new
    return config.unsigned_integer(field, {.fallback = 2, .min = 1, .max = 1u << 20});
}

Result<void> refuse_other_encoders(const Config& config) {
    for (const std::string_view name : {"is_decoder", "add_cross_attention", "is_encoder_decoder"}) {
        VKFORMER_TRY(const bool value, config.boolean(name, false));
        if (value) return config.unsupported(name, "false");
    }
    VKFORMER_TRY(const std::string positions, config.string("position_embedding_type", "absolute"));
    if (positions != "absolute") return config.unsupported("position_embedding_type", "absolute");
    VKFORMER_TRY(const Config pruned, config.object("pruned_heads"));
    if (!pruned.is_empty()) return config.unsupported("pruned_heads", "{}");
    if (config.has("quantization_config")) return config.unsupported("quantization_config", "null");
    return {};
}

Result<EncoderConfig> read_bert_config(const Config& config, const BertFields& fields) {
    VKFORMER_CHECK(refuse_other_encoders(config));
    const formats::Expect<std::uint32_t> count = {.min = 1, .max = 1u << 20};
    EncoderConfig c;
    VKFORMER_TRY(c.vocab_size, config.unsigned_integer("vocab_size", {.min = 1, .max = 1u << 24}));
    VKFORMER_TRY(c.hidden_size, config.unsigned_integer("hidden_size", count));
    VKFORMER_TRY(c.intermediate_size, config.unsigned_integer("intermediate_size", count));
    VKFORMER_TRY(c.layers, config.unsigned_integer("num_hidden_layers", {.min = 1, .max = 4096}));
    VKFORMER_TRY(c.heads, config.unsigned_integer("num_attention_heads", count));
    VKFORMER_TRY(c.max_positions,
                 config.unsigned_integer("max_position_embeddings", {.fallback = 512, .min = 1, .max = 1u << 20}));
    VKFORMER_TRY(c.types,
                 config.unsigned_integer("type_vocab_size",
                                         {.fallback = fields.types, .min = fields.least_types, .max = 1u << 10}));
    VKFORMER_TRY(const double eps, config.real("layer_norm_eps", {.fallback = fields.norm_eps, .min = 0, .max = 1}));
    c.norm_eps = static_cast<float>(eps);
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "gelu"));
    VKFORMER_TRY(c.labels, read_labels(config));
    VKFORMER_TRY(c.embedding_size,
                 config.unsigned_integer("embedding_size", {.fallback = c.hidden_size, .min = 1, .max = 1u << 20}));
    if (c.embedding_size != c.hidden_size && !fields.has_embedding_size)
        return config.unsupported("embedding_size", "hidden_size = " + std::to_string(c.hidden_size));
    if (c.hidden_size % c.heads != 0)
        return config.unsupported("num_attention_heads", "a divisor of hidden_size = " + std::to_string(c.hidden_size));
    return c;
}

}  // namespace vkformer::models
