// SPDX-License-Identifier: MIT
#include "models/encoder.hpp"

#include <cmath>
#include <string>

#include "core/try.hpp"

namespace vkformer::models {
namespace {

using graph::Graph;
using graph::Value;

/// positions[p, :] + types[0, :] in float32, for texts of one type.
Result<TensorData> positions_of_type_0(const EncoderWeights& weights) {
    const Shape shape = weights.positions.shape;
    const auto sum = std::make_shared<std::vector<float>>(shape.element_count());
    std::vector<float> type(shape.back());
    VKFORMER_CHECK(convert(weights.positions.dtype, weights.positions.bytes, 0, std::span(*sum)));
    VKFORMER_CHECK(convert(weights.types.dtype, weights.types.bytes, 0, std::span(type)));
    for (std::size_t i = 0; i < sum->size(); ++i) (*sum)[i] += type[i % type.size()];
    return TensorData{.dtype = DType::f32, .shape = shape, .bytes = std::as_bytes(std::span(*sum)), .owner = sum};
}

}  // namespace

/// The pieces of the network for one graph.
class Encoder::Builder {
public:
    Builder(const Encoder& model, Graph& graph, DType dtype)
        : config_(model.config_), weights_(model.weights_), graph_(graph), dtype_(dtype) {}

    /// norm(word + position + type)
    Result<Value> embed(Value tokens, Value types) {
        graph_.set_scope("embeddings");
        VKFORMER_TRY(const Value table, graph_.weight("embeddings.words", weights_.embedding, dtype_));
        VKFORMER_TRY(const Value words, graph::embedding(graph_, tokens, table));
        VKFORMER_TRY(const Value positions, position_table(static_cast<bool>(types)));
        VKFORMER_TRY(Value x, graph::positional_embedding(graph_, words, positions));
        if (types) {
            VKFORMER_TRY(const Value type_table, graph_.weight("embeddings.types", weights_.types, dtype_));
            VKFORMER_TRY(const Value type, graph::embedding(graph_, types, type_table));
            VKFORMER_TRY(x, graph::add(graph_, x, type));
        }
        return norm("embeddings.norm", weights_.embedding_norm, x);
    }

    /// norm(x + attention(x)), then norm(x + down(f(up(x)))).
    Result<Value> layer(std::uint32_t index, Value x, Value lengths) {
        const EncoderWeights::Layer& w = weights_.layers[index];
        const std::string name = "encoder." + std::to_string(index);
        VKFORMER_TRY(const Value query, heads(name + ".query", w.query, x));
        VKFORMER_TRY(const Value key, heads(name + ".key", w.key, x));
        VKFORMER_TRY(const Value value, heads(name + ".value", w.value, x));
        graph_.set_scope(name);
        const float scale = 1.0f / std::sqrt(static_cast<float>(graph_.shape(query).back()));
        VKFORMER_TRY(const Value seen, graph::attention(graph_, query, key, value, {.key_lengths = lengths}, scale));
        VKFORMER_TRY(const Value joined, graph_.reshape(seen, graph_.shape(x)));
        VKFORMER_TRY(const Value attended, linear(name + ".output", w.output, joined));
        VKFORMER_TRY(const Value y, add_and_norm(name + ".attention_norm", w.attention_norm, x, attended));

        VKFORMER_TRY(const Value inner, linear(name + ".up", w.up, y));
        VKFORMER_TRY(const Value active, graph::activate(graph_, inner, config_.activation));
        VKFORMER_TRY(const Value outer, linear(name + ".down", w.down, active));
        return add_and_norm(name + ".feed_forward_norm", w.feed_forward_norm, y, outer);
    }

    Result<Value> linear(const std::string& name, const EncoderWeights::Projection& projection, Value x) {
        graph_.set_scope(name);
        const DType stored = is_quantized(projection.weight.dtype) ? projection.weight.dtype : dtype_;
        VKFORMER_TRY(const Value weight, graph_.weight(name + ".weight", projection.weight, stored));
        VKFORMER_TRY(const Value bias, graph_.weight(name + ".bias", projection.bias, dtype_));
        return graph::linear(graph_, x, weight, bias);
    }

private:
    Result<Value> position_table(bool has_types) {
        if (has_types || config_.types == 0)
            return graph_.weight("embeddings.positions", weights_.positions, DType::f32);
        VKFORMER_TRY(TensorData table, positions_of_type_0(weights_));
        return graph_.weight("embeddings.positions_of_type_0", std::move(table), DType::f32);
    }

    /// A projection split into heads: [batch, len, heads, head_dim].
    Result<Value> heads(const std::string& name, const EncoderWeights::Projection& projection, Value x) {
        VKFORMER_TRY(const Value y, linear(name, projection, x));
        const Shape& shape = graph_.shape(y);
        return graph_.reshape(y, {shape[0], shape[1], config_.heads, config_.hidden_size / config_.heads});
    }

    Result<Value> norm(const std::string& name, const EncoderWeights::Norm& norm, Value x) {
        graph_.set_scope(name);
        VKFORMER_TRY(const Value gain, graph_.weight(name + ".gain", norm.gain, dtype_));
        VKFORMER_TRY(const Value bias, graph_.weight(name + ".bias", norm.bias, dtype_));
        return graph::layer_norm(graph_, x, gain, bias, config_.norm_eps);
    }

    Result<Value> add_and_norm(const std::string& name, const EncoderWeights::Norm& w, Value residual, Value y) {
        graph_.set_scope(name);
        VKFORMER_TRY(const Value sum, graph::add(graph_, residual, y));
        return norm(name, w, sum);
    }

    const EncoderConfig& config_;
    const EncoderWeights& weights_;
    Graph& graph_;
    DType dtype_;
};

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
    Builder build(*this, graph, layout.dtype);
    VKFORMER_TRY(t.hidden, build.embed(t.tokens, t.types));
    for (std::uint32_t layer = 0; layer < config_.layers; ++layer) {
        VKFORMER_TRY(t.hidden, build.layer(layer, t.hidden, t.lengths));
    }
    return t;
}

// In float32, as graph::pool gives it: a few rows, whose cost nobody sees.
Result<Value> Encoder::add_classifier(Graph& graph, Value hidden) const {
    if (config_.labels == 0)
        return Error{ErrorCode::UnsupportedConfig,
                     "the model has no classification head: it gives embeddings, not scores"};
    graph.set_scope("head");
    Builder build(*this, graph, DType::f32);
    VKFORMER_TRY(const Value first, graph::pool(graph, hidden, {}, graph::Pooling::first));
    VKFORMER_TRY(const Value dense, build.linear("head.dense", weights_.head_dense, first));
    VKFORMER_TRY(const Value active, graph::activate(graph, dense, config_.head_activation));
    return build.linear("head.output", weights_.head_output, active);
}

}  // namespace vkformer::models
