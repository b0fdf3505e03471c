// SPDX-License-Identifier: MIT
#include "models/encoder.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "core/try.hpp"
#include "models/decoder.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {
namespace {

using graph::Graph;
using graph::Value;

/// positions[p, :] + types[0, :] in float32, for texts of one type; without positions types[0, :] for each of `len` tokens.
Result<TensorData> positions_of_type_0(const EncoderWeights& weights, std::uint64_t len) {
    VKFORMER_TRY(const std::vector<float> type, floats_of(rows_of(weights.types, 0, 1)));
    std::vector<float> sum(len * type.size());
    if (!weights.positions.bytes.empty()) {
        VKFORMER_TRY(sum, floats_of(weights.positions));
    }
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += type[i % type.size()];
    const Shape shape{sum.size() / type.size(), type.size()};
    return float_tensor(shape, std::move(sum));
}

}  // namespace

// In float32, as PyTorch computes them: a bucket more or less would be another row.
std::uint32_t RelativeTable::bucket(std::uint32_t distance) const {
    const std::uint32_t middle = buckets / 2;
    if (buckets == 0 || distance <= middle) return distance;
    constexpr float kMost = 1u << 24;
    const float part = std::log(static_cast<float>(distance) / static_cast<float>(middle)) /
                       std::log(static_cast<float>(static_cast<double>(max_distance - 1) / middle));
    return static_cast<std::uint32_t>(std::min(std::ceil(part * static_cast<float>(middle - 1)), kMost)) + middle;
}

namespace {

/// Rows on either side of distance 0 that texts of `len` tokens need, rounded up: few slices of the table serve all lengths.
std::uint32_t relative_reach(const RelativeTable& table, std::uint32_t len) {
    return std::min(table.span, std::bit_ceil(table.bucket(len - 1) + 1));
}

}  // namespace

std::uint32_t Encoder::most_tokens(std::uint32_t len) const {
    constexpr std::uint32_t kMostScores = 1u << 25;
    if (config_.relative.span == 0) return std::numeric_limits<std::uint32_t>::max();
    return kMostScores / config_.heads / std::max(len, 2 * relative_reach(config_.relative, len));
}

Result<void> Encoder::add_relative(const EncoderLayers& build, Graph& graph, std::uint32_t len, DType dtype,
                                   EncoderPass& pass) const {
    const RelativeTable& table = config_.relative;
    const auto span = static_cast<std::int32_t>(table.span);
    const auto reach = static_cast<std::int32_t>(relative_reach(table, len));
    // All distances whose rows are in the slice, for longer texts too: the name tells which. Beyond the table they are alike.
    std::int32_t furthest = 0;
    const auto bucket = [&](std::int32_t distance) {
        return static_cast<std::int32_t>(table.bucket(static_cast<std::uint32_t>(distance)));
    };
    while (furthest + 1 < static_cast<std::int32_t>(config_.max_positions) && bucket(furthest) < span &&
           (reach == span || bucket(furthest + 1) < reach))
        ++furthest;
    auto index = std::make_shared<std::vector<std::int32_t>>();
    for (std::int32_t d = -furthest; d <= furthest; ++d)
        index->push_back(std::clamp((d < 0 ? -1 : 1) * bucket(std::abs(d)), -reach, reach - 1) + reach);
    const std::string suffix = "_" + std::to_string(2 * reach);
    graph.set_scope("encoder.relative");
    TensorData distances = {
        .dtype = DType::i32, .shape = {index->size()}, .bytes = std::as_bytes(std::span(*index)), .owner = index};
    VKFORMER_TRY(pass.distances, graph.weight("encoder.distances" + suffix, std::move(distances), DType::i32));
    TensorData rows = rows_of(weights_.relative, table.span - static_cast<std::uint32_t>(reach),
                              2 * static_cast<std::uint32_t>(reach));
    rows.shape = {1, rows.shape[0], rows.shape[1]};
    VKFORMER_TRY(pass.relative, graph.weight("encoder.relative" + suffix, std::move(rows), dtype));
    if (weights_.relative_norm) {
        VKFORMER_TRY(pass.relative, build.norm("encoder.relative_norm", weights_.relative_norm, pass.relative));
    }
    return {};
}

Result<Value> Encoder::embed(const EncoderLayers& build, Graph& graph, const EncoderTensors& t, DType dtype) const {
    graph.set_scope("embeddings");
    VKFORMER_TRY(const Value table, build.matrix("embeddings.words", weights_.embedding));
    VKFORMER_TRY(const Value words, graph::embedding(graph, t.tokens, table, 1, dtype));
    TensorData rows = weights_.positions;
    std::string name = "embeddings.positions";
    if (!t.types && config_.types > 0) {
        const std::uint64_t len = graph.shape(t.tokens)[1];
        name = rows.bytes.empty() ? "embeddings.type_0_" + std::to_string(len) : "embeddings.positions_of_type_0";
        VKFORMER_TRY(rows, positions_of_type_0(weights_, len));
    }
    VKFORMER_TRY(Value x, build.add_rows("embeddings.words", weights_.word_adapters, t.tokens, words));
    if (!rows.bytes.empty()) {
        VKFORMER_TRY(const Value positions, graph.weight(std::move(name), std::move(rows), DType::f32));
        VKFORMER_TRY(x, graph::positional_embedding(graph, x, positions));
    }
    if (t.types) {
        VKFORMER_TRY(const Value type_table, graph.weight("embeddings.types", weights_.types, dtype));
        VKFORMER_TRY(const Value type, graph::embedding(graph, t.types, type_table));
        VKFORMER_TRY(x, graph::add(graph, x, type));
    }
    VKFORMER_TRY(x, build.add_rows("embeddings.types", weights_.type_adapters, t.types, x));
    if (weights_.embedding_projection) {
        VKFORMER_TRY(x, build.linear("embeddings.projection", weights_.embedding_projection, x));
    }
    if (!weights_.embedding_norm) return x;
    return build.norm("embeddings.norm", weights_.embedding_norm, x);
}

Result<EncoderTensors> Encoder::add_encoder(Graph& graph, const EncoderLayout& layout) const {
    if (layout.len > config_.max_positions)
        return Error{ErrorCode::InvalidArgument, "the encoder takes at most " + std::to_string(config_.max_positions) +
                                                     " tokens, not " + std::to_string(layout.len)};
    if (layout.token_types && config_.types == 0)
        return Error{ErrorCode::InvalidArgument, "the encoder knows no token types"};
    if (layout.adapters && weights_.adapters.empty())
        return Error{ErrorCode::InvalidArgument, "the encoder has no adapters"};
    EncoderTensors t;
    VKFORMER_TRY(t.tokens, graph.input("input_ids", DType::i32, {layout.batch, layout.len}));
    if (layout.token_types) {
        VKFORMER_TRY(t.types, graph.input("token_type_ids", DType::i32, {layout.batch, layout.len}));
    }
    VKFORMER_TRY(t.lengths, graph.input("lengths", DType::i32, {layout.batch}));
    if (layout.adapters) {
        VKFORMER_TRY(t.adapters, graph.input("adapters", DType::f32, {layout.batch, weights_.adapter_columns}));
    }
    VKFORMER_CHECK(encode(graph, t, layout));
    return t;
}

Result<void> Encoder::encode(Graph& graph, EncoderTensors& t, const EncoderLayout& layout) const {
    if (decoder_) {
        const DecoderLayout whole = {.rows = layout.batch,
                                     .len = layout.len,
                                     .dtype = layout.dtype,
                                     .weights = WeightFormat::as_filed,
                                     .adapter_scales = t.adapters,
                                     .layers = layout.layers};
        VKFORMER_TRY(DecoderPass pass, decoder_->add_encoding(graph, whole, t.tokens, t.lengths, t.types));
        t.hidden = pass.hidden;
        t.layers = std::move(pass.layers);
        return {};
    }
    const EncoderLayers build(config_, graph, layout.dtype, t.adapters);
    VKFORMER_TRY(const Value x, embed(build, graph, t, layout.dtype));
    EncoderPass pass = {
        .mask = {.causal = config_.is_causal, .key_lengths = t.lengths}, .wanted = layout.layers, .values = &t.layers};
    if (!weights_.score_bias.bytes.empty()) {
        graph.set_scope("encoder");
        VKFORMER_TRY(const Value table, graph.weight("encoder.score_bias", weights_.score_bias, DType::f32));
        VKFORMER_TRY(pass.mask.additive, graph::relative_bias(graph, table, {}, layout.len, layout.len));
    }
    if (config_.relative.span > 0) VKFORMER_CHECK(add_relative(build, graph, layout.len, layout.dtype, pass));
    VKFORMER_TRY(t.hidden, build.stack("encoder", weights_.layers, x, pass));
    if (weights_.final_norm) {
        VKFORMER_TRY(t.hidden, build.norm("norm", weights_.final_norm, t.hidden));
    }
    return {};
}

// In float32, as graph::pool gives it: a few rows, whose cost nobody sees.
Result<Value> Encoder::add_classifier(Graph& graph, const EncoderTensors& tensors) const {
    if (config_.labels == 0)
        return Error{ErrorCode::UnsupportedConfig,
                     "the model has no classification head: it gives embeddings, not scores"};
    graph.set_scope("head");
    const EncoderLayers build(config_, graph, DType::f32, tensors.adapters);
    VKFORMER_TRY(Value x, graph::pool(graph, tensors.hidden, tensors.lengths, config_.head_pooling));
    if (weights_.head_dense) {
        VKFORMER_TRY(const Value dense, build.linear("head.dense", weights_.head_dense, x));
        VKFORMER_TRY(x, graph::activate(graph, dense, config_.head_activation));
    }
    if (weights_.head_norm) {
        VKFORMER_TRY(x, build.norm("head.norm", weights_.head_norm, x));
    }
    return build.linear("head.output", weights_.head_output, x);
}

}  // namespace vkformer::models
