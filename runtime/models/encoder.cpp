// SPDX-License-Identifier: MIT
#include "models/encoder.hpp"

#include <string>

#include "core/try.hpp"
#include "models/decoder.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {
namespace {

using graph::Graph;
using graph::Value;

/// positions[p, :] + types[0, :] in float32, for texts of one type.
Result<TensorData> positions_of_type_0(const EncoderWeights& weights) {
    VKFORMER_TRY(std::vector<float> sum, floats_of(weights.positions));
    VKFORMER_TRY(const std::vector<float> type, floats_of(rows_of(weights.types, 0, 1)));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += type[i % type.size()];
    return float_tensor(weights.positions.shape, std::move(sum));
}

}  // namespace

Result<Value> Encoder::embed(const EncoderLayers& build, Graph& graph, const EncoderTensors& t, DType dtype) const {
    graph.set_scope("embeddings");
    VKFORMER_TRY(const Value table, build.matrix("embeddings.words", weights_.embedding));
    VKFORMER_TRY(const Value words, graph::embedding(graph, t.tokens, table, 1, dtype));
    const bool adds_type_0 = !t.types && config_.types > 0;
    TensorData rows = weights_.positions;
    if (adds_type_0) {
        VKFORMER_TRY(rows, positions_of_type_0(weights_));
    }
    VKFORMER_TRY(const Value positions,
                 graph.weight(adds_type_0 ? "embeddings.positions_of_type_0" : "embeddings.positions", std::move(rows),
                              DType::f32));
    VKFORMER_TRY(Value x, graph::positional_embedding(graph, words, positions));
    if (t.types) {
        VKFORMER_TRY(const Value type_table, graph.weight("embeddings.types", weights_.types, dtype));
        VKFORMER_TRY(const Value type, graph::embedding(graph, t.types, type_table));
        VKFORMER_TRY(x, graph::add(graph, x, type));
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
    EncoderTensors t;
    VKFORMER_TRY(t.tokens, graph.input("input_ids", DType::i32, {layout.batch, layout.len}));
    if (layout.token_types) {
        VKFORMER_TRY(t.types, graph.input("token_type_ids", DType::i32, {layout.batch, layout.len}));
    }
    VKFORMER_TRY(t.lengths, graph.input("lengths", DType::i32, {layout.batch}));
    VKFORMER_CHECK(encode(graph, t, layout));
    return t;
}

Result<void> Encoder::encode(Graph& graph, EncoderTensors& t, const EncoderLayout& layout) const {
    if (decoder_) {
        const DecoderLayout whole = {.rows = layout.batch,
                                     .len = layout.len,
                                     .dtype = layout.dtype,
                                     .weights = WeightFormat::as_filed,
                                     .layers = layout.layers};
        VKFORMER_TRY(DecoderPass pass, decoder_->add_encoding(graph, whole, t.tokens, t.lengths, t.types));
        t.hidden = pass.hidden;
        t.layers = std::move(pass.layers);
        return {};
    }
    const EncoderLayers build(config_, graph, layout.dtype);
    VKFORMER_TRY(const Value x, embed(build, graph, t, layout.dtype));
    EncoderPass pass = {
        .mask = {.causal = config_.is_causal, .key_lengths = t.lengths}, .wanted = layout.layers, .values = &t.layers};
    if (!weights_.score_bias.bytes.empty()) {
        graph.set_scope("encoder");
        VKFORMER_TRY(const Value table, graph.weight("encoder.score_bias", weights_.score_bias, DType::f32));
        VKFORMER_TRY(pass.mask.additive, graph::relative_bias(graph, table, {}, layout.len, layout.len));
    }
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
    const EncoderLayers build(config_, graph, DType::f32);
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
