// SPDX-License-Identifier: MIT
#include <cmath>

#include "graph/builders.hpp"
#include "graph/builders/check.hpp"
#include "graph/splits.hpp"

namespace vkformer::graph {
namespace {

constexpr std::uint64_t kMaxHeadDim = 576;    // of the nodes that keep a row in registers or shared memory
constexpr std::uint64_t kMaxTiledDim = 4096;  // of those that walk over it in tiles
constexpr std::uint64_t kMaxAdditiveDim = 4096;
constexpr std::uint64_t kMaxHalfWidth = std::uint64_t{1} << 20;
constexpr std::string_view kQueryLayout = "[batch, query_len, heads, head_dim]";
constexpr std::string_view kKeyLayout = "[batch, key_len, kv_heads, head_dim]";
constexpr std::string_view kValueLayout = "[batch, key_len, kv_heads, value_dim]";
constexpr std::string_view kScoresLayout = "[batch, heads, query_len, key_len]";

Result<void> check_grouped(const OperandCheck& check, std::uint64_t heads, std::uint64_t kv_heads) {
    if (heads % kv_heads == 0) return {};
    return check.error(ErrorCode::ShapeMismatch, "heads is " + std::to_string(heads) +
                                                     ", expected a multiple of kv_heads, " + std::to_string(kv_heads));
}

/// What keys and values may be stored as.
enum class Keys : std::uint8_t { as_query, as_query_or_q8_0 };

Result<void> check_query_key(const OperandCheck& check, const Graph& graph, Value query, Value key,
                             std::uint64_t max_dim, Keys keys = Keys::as_query, Value pages = {}) {
    VKFORMER_CHECK(check.floats("query", query));
    VKFORMER_CHECK(check.rank("query", query, kQueryLayout));
    VKFORMER_CHECK(check.present("key", key));
    if (keys == Keys::as_query || graph.dtype(key) != DType::q8_0)
        VKFORMER_CHECK(check_like(check, graph, "key", key, "query", query));
    VKFORMER_CHECK(check.rank("key", key, kKeyLayout));
    const Shape& q = graph.shape(query);
    const Shape& k = graph.shape(key);
    VKFORMER_CHECK(check.shape("key", key, {k[0], k[1], k[2], q[3]}, "head_dim of query"));
    if (pages)
        VKFORMER_CHECK(check_pages(check, graph, pages, q[0], "query", "key", key));
    else
        VKFORMER_CHECK(check.shape("key", key, {q[0], k[1], k[2], k[3]}, "batch of query"));
    VKFORMER_CHECK(check.range("head_dim", q[3], 1, max_dim));
    return check_grouped(check, q[2], k[2]);
}

Result<void> check_value(const OperandCheck& check, const Graph& graph, Value key, Value value) {
    VKFORMER_CHECK(check_like(check, graph, "value", value, "key", key));
    VKFORMER_CHECK(check.rank("value", value, kValueLayout));
    const Shape& k = graph.shape(key);
    const Shape& v = graph.shape(value);
    VKFORMER_CHECK(check.shape("value", value, {k[0], k[1], k[2], v[3]}, "batch, key_len and kv_heads of key"));
    return check.range("value_dim", v[3], 1, kMaxHeadDim);
}

/// `scores` is the shape of the scores that the mask is for.
Result<void> check_mask(const OperandCheck& check, const Graph& graph, const AttentionMask& mask, const Shape& scores) {
    for (const auto& [name, value] : {std::pair{"key_lengths", mask.key_lengths}, std::pair{"starts", mask.starts}}) {
        if (!value) continue;
        VKFORMER_CHECK(check.dtype(name, value, DType::i32));
        VKFORMER_CHECK(check.shape(name, value, {scores[0]}, "batch"));
    }
    if (mask.sinks) {
        if (mask.additive)
            return check.error(ErrorCode::InvalidArgument, "expected an additive mask or sinks, not both");
        VKFORMER_CHECK(check.dtype("sinks", mask.sinks, DType::f32));
        VKFORMER_CHECK(check.shape("sinks", mask.sinks, {scores[1]}, "heads of query"));
    }
    if (!mask.additive) return {};
    VKFORMER_CHECK(check.dtype("additive mask", mask.additive, DType::f32));
    VKFORMER_CHECK(check.rank("additive mask", mask.additive, kScoresLayout));
    const Shape& found = graph.shape(mask.additive);
    const auto expected = [&](std::size_t axis) { return found[axis] == 1 ? 1 : scores[axis]; };
    return check.shape("additive mask", mask.additive, {expected(0), expected(1), expected(2), scores[3]},
                       "batch, heads and query_len may also be 1");
}

/// Checks everything; returns the shape that the scores have or would have.
Result<Shape> check_attention(const OperandCheck& check, const Graph& graph, Value query, Value key, Value value,
                              Value pages, const AttentionMask& mask) {
    VKFORMER_CHECK(check_query_key(check, graph, query, key, kMaxHeadDim, Keys::as_query_or_q8_0, pages));
    VKFORMER_CHECK(check_value(check, graph, key, value));
    const Shape& q = graph.shape(query);
    const Shape scores{q[0], q[2], q[1], capacity_of(graph, key, pages)};
    VKFORMER_CHECK(check_mask(check, graph, mask, scores));
    return scores;
}

Result<void> check_soft_cap(const OperandCheck& check, float soft_cap) {
    if (soft_cap >= 0 && std::isfinite(soft_cap)) return {};
    return check.error(ErrorCode::InvalidArgument,
                       "soft_cap is " + std::to_string(soft_cap) + ", expected a positive number, or 0 for none");
}

Shape attention_result(const Graph& graph, Value query, Value value) {
    return graph.shape(query).with_back(graph.shape(value).back());
}

/// DecodeAttention::partial. Nodes of one shape share it: they run one after another then.
Result<Value> split_sums(Graph& graph, std::uint64_t rows, std::uint64_t splits, std::uint64_t value_dim) {
    const Shape shape{rows, splits * (value_dim + 2) + 1};
    const std::string name = std::string(DecodeAttention::kName) + ".partial_" + std::to_string(rows) + "x" +
                             std::to_string(splits) + "x" + std::to_string(value_dim);
    if (const auto known = graph.find(name)) {
        const Tensor& tensor = graph.tensor(*known);
        if (tensor.kind == TensorKind::state && tensor.dtype == DType::f32 && tensor.shape == shape) return *known;
    }
    return graph.state(name, DType::f32, shape);
}

}  // namespace

Result<Value> attention_scores(Graph& graph, Value query, Value key, float scale, float soft_cap) {
    const OperandCheck check(graph, AttentionScores::kName);
    VKFORMER_CHECK(check_query_key(check, graph, query, key, kMaxTiledDim));
    VKFORMER_CHECK(check_soft_cap(check, soft_cap));

    const Shape& q = graph.shape(query);
    const Shape shape{q[0], q[2], q[1], graph.shape(key)[1]};
    VKFORMER_TRY(const Value scores, graph.activation(AttentionScores::kName, DType::f32, shape));
    graph.add_node(AttentionScores{.query = query, .key = key, .scores = scores, .scale = scale, .soft_cap = soft_cap});
    return scores;
}

Result<Value> additive_scores(Graph& graph, Value query, Value key, Value weight) {
    const OperandCheck check(graph, AdditiveScores::kName);
    VKFORMER_CHECK(check.floats("query", query));
    VKFORMER_CHECK(check.rank("query", query, "[batch, query_len, heads, dim]"));
    VKFORMER_CHECK(check_like(check, graph, "key", key, "query", query));
    VKFORMER_CHECK(check.rank("key", key, "[batch, key_len, heads, dim]"));
    const Shape& q = graph.shape(query);
    const std::uint64_t key_len = graph.shape(key)[1];
    VKFORMER_CHECK(check.shape("key", key, {q[0], key_len, q[2], q[3]}, "batch, heads and dim of query"));
    VKFORMER_CHECK(check_like(check, graph, "weight", weight, "query", query));
    VKFORMER_CHECK(check.shape("weight", weight, {q[2], q[3]}, "heads and dim of query"));
    VKFORMER_CHECK(check.range("dim", q[3], 1, kMaxAdditiveDim));

    const Shape shape{q[0], q[2], q[1], key_len};
    VKFORMER_TRY(const Value scores, graph.activation(AdditiveScores::kName, DType::f32, shape));
    graph.add_node(AdditiveScores{.query = query, .key = key, .weight = weight, .scores = scores});
    return scores;
}

Result<Value> local_softmax(Graph& graph, Value scores, const LocalWindow& window) {
    const OperandCheck check(graph, LocalSoftmax::kName);
    VKFORMER_CHECK(check.dtype("scores", scores, DType::f32));
    VKFORMER_CHECK(check.rank("scores", scores, kScoresLayout));
    VKFORMER_CHECK(check.range("half_width", window.half_width, 1, kMaxHalfWidth));
    const Shape shape = graph.shape(scores);
    const Shape per_query{shape[0], shape[2]};
    if (bool{window.positions} == bool{window.relative})
        return check.error(ErrorCode::InvalidArgument, "expected either positions or relative positions");
    if (window.positions) {
        VKFORMER_CHECK(check.dtype("positions", window.positions, DType::i32));
        VKFORMER_CHECK(check.shape("positions", window.positions, per_query, "batch and query_len of scores"));
    } else {
        VKFORMER_CHECK(check.dtype("relative", window.relative, DType::f32));
        VKFORMER_CHECK(check.shape("relative", window.relative, per_query, "batch and query_len of scores"));
    }
    if (window.key_lengths) {
        VKFORMER_CHECK(check.dtype("key_lengths", window.key_lengths, DType::i32));
        VKFORMER_CHECK(check.shape("key_lengths", window.key_lengths, {shape[0]}, "batch"));
    }

    VKFORMER_TRY(const Value weights, graph.activation(LocalSoftmax::kName, DType::f32, shape));
    graph.add_node(LocalSoftmax{.scores = scores, .weights = weights, .window = window});
    return weights;
}

Result<Value> masked_softmax(Graph& graph, Value scores, const AttentionMask& mask) {
    const OperandCheck check(graph, MaskedSoftmax::kName);
    VKFORMER_CHECK(check.dtype("scores", scores, DType::f32));
    VKFORMER_CHECK(check.rank("scores", scores, kScoresLayout));
    const Shape shape = graph.shape(scores);
    VKFORMER_CHECK(check_mask(check, graph, mask, shape));

    VKFORMER_TRY(const Value weights, graph.activation(MaskedSoftmax::kName, DType::f32, shape));
    graph.add_node(MaskedSoftmax{.scores = scores, .weights = weights, .mask = mask});
    return weights;
}

Result<Value> weighted_sum(Graph& graph, Value weights, Value value) {
    const OperandCheck check(graph, WeightedSum::kName);
    VKFORMER_CHECK(check.dtype("weights", weights, DType::f32));
    VKFORMER_CHECK(check.rank("weights", weights, kScoresLayout));
    VKFORMER_CHECK(check.floats("value", value));
    VKFORMER_CHECK(check.rank("value", value, kValueLayout));
    const Shape& w = graph.shape(weights);
    const Shape& v = graph.shape(value);
    VKFORMER_CHECK(check.shape("value", value, {w[0], w[3], v[2], v[3]}, "batch and key_len of weights"));
    VKFORMER_CHECK(check.range("value_dim", v[3], 1, kMaxTiledDim));
    VKFORMER_CHECK(check_grouped(check, w[1], v[2]));

    const Shape shape{w[0], w[2], w[1], v[3]};
    VKFORMER_TRY(const Value y, graph.activation(WeightedSum::kName, graph.dtype(value), shape));
    graph.add_node(WeightedSum{.weights = weights, .value = value, .y = y});
    return y;
}

Result<SeenWithWeights> attention_with_weights(Graph& graph, Value query, Value key, Value value,
                                               const AttentionMask& mask, float scale, float soft_cap) {
    VKFORMER_TRY(const Value scores, attention_scores(graph, query, key, scale, soft_cap));
    SeenWithWeights result;
    VKFORMER_TRY(result.weights, masked_softmax(graph, scores, mask));
    graph.mark_output(result.weights);
    VKFORMER_TRY(result.seen, weighted_sum(graph, result.weights, value));
    return result;
}

Result<Value> attention(Graph& graph, Value query, Value key, Value value, const AttentionMask& mask, float scale,
                        float soft_cap, Value pages) {
    const OperandCheck check(graph, Attention::kName);
    VKFORMER_CHECK(check_attention(check, graph, query, key, value, pages, mask));
    VKFORMER_CHECK(check_soft_cap(check, soft_cap));

    const Shape shape = attention_result(graph, query, value);
    VKFORMER_TRY(const Value y, graph.activation(Attention::kName, graph.dtype(query), shape));
    graph.add_node(Attention{.query = query,
                             .key = key,
                             .value = value,
                             .pages = pages,
                             .y = y,
                             .mask = mask,
                             .scale = scale,
                             .soft_cap = soft_cap});
    return y;
}

Result<Value> decode_attention(Graph& graph, Value query, Value key, Value value, const AttentionMask& mask,
                               float scale, std::uint32_t split_keys, float soft_cap, Value pages) {
    const OperandCheck check(graph, DecodeAttention::kName);
    VKFORMER_TRY(const Shape scores, check_attention(check, graph, query, key, value, pages, mask));
    const Shape shape = attention_result(graph, query, value);
    if (shape[1] != 1)
        return check.error(ErrorCode::ShapeMismatch,
                           "query has shape " + to_string(graph.shape(query)) + ", expected " +
                               to_string({shape[0], 1, shape[2], graph.shape(query)[3]}) + " (one query per sequence)");
    VKFORMER_CHECK(check.range("split_keys", split_keys, 1, Graph::kMaxElements));
    VKFORMER_CHECK(check_soft_cap(check, soft_cap));

    // partial is at least as large as the result, so that where it fits, the result does too
    VKFORMER_TRY(const Value partial,
                 split_sums(graph, shape[0] * shape[2], split_count(scores[3], split_keys), shape[3]));
    VKFORMER_TRY(const Value y, graph.activation(DecodeAttention::kName, graph.dtype(query), shape));
    graph.add_node(DecodeAttention{.query = query,
                                   .key = key,
                                   .value = value,
                                   .pages = pages,
                                   .partial = partial,
                                   .y = y,
                                   .mask = mask,
                                   .scale = scale,
                                   .soft_cap = soft_cap,
                                   .split_keys = split_keys});
    return y;
}

}  // namespace vkformer::graph
