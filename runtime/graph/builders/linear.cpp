// SPDX-License-Identifier: MIT
#include "graph/builders.hpp"
#include "graph/builders/check.hpp"
#include "graph/weight_dtype.hpp"

namespace vkformer::graph {

namespace {

/// The dtype of x, or what a product unpacks.
Result<void> check_weight_dtype(const OperandCheck& check, const Graph& graph, Value weight, Value x) {
    if (!is_unpacked(graph.dtype(weight), graph.dtype(x))) return check_like(check, graph, "weight", weight, "x", x);
    VKFORMER_CHECK(check.rank("weight", weight, "[out, in]"));
    return check.whole_blocks("weight", weight);
}

/// x of a weight [batch, out, in]. Returns the shape of x, with the weight's batch.
Result<Shape> check_batch(const OperandCheck& check, const Graph& graph, Value x, const Shape& weight) {
    VKFORMER_CHECK(check.rank("x", x, "[batch, rows, in]"));
    Shape shape = graph.shape(x);
    if (shape[0] != 1) VKFORMER_CHECK(check.shape("x", x, {weight[0], shape[1], shape[2]}, "batch of weight, or 1"));
    return Shape{weight[0], shape[1], shape[2]};
}

}  // namespace

Result<Value> linear(Graph& graph, Value x, Value weight, Value bias, std::optional<DType> result) {
    const OperandCheck check(graph, Linear::kName);
    VKFORMER_CHECK(check.floats("x", x));
    VKFORMER_CHECK(check.rows("x", x));
    VKFORMER_CHECK(check.present("weight", weight));
    VKFORMER_CHECK(check_weight_dtype(check, graph, weight, x));
    const bool is_batch = graph.shape(weight).rank() == 3;
    if (!is_batch) VKFORMER_CHECK(check.rank("weight", weight, "[out, in]"));
    VKFORMER_CHECK(check.shape("weight", weight, graph.shape(weight).with_back(graph.shape(x).back()), "in of x"));
    const std::uint64_t out = graph.shape(weight)[is_batch ? 1 : 0];
    Shape rows = graph.shape(x);
    if (is_batch) {
        VKFORMER_TRY(rows, check_batch(check, graph, x, graph.shape(weight)));
    }
    if (bias) {
        VKFORMER_CHECK(check_like(check, graph, "bias", bias, "x", x));
        VKFORMER_CHECK(check.shape("bias", bias, {out}, "out of weight"));
    }
    const DType dtype = result.value_or(graph.dtype(x));
    if (dtype != DType::f32 && dtype != graph.dtype(x))
        return check.error(ErrorCode::UnsupportedDtype, "the result has dtype " + std::string(to_string(dtype)) +
                                                            ", expected f32 or that of x, " +
                                                            std::string(to_string(graph.dtype(x))));

    VKFORMER_TRY(const Value y, graph.activation(Linear::kName, dtype, rows.with_back(out)));
    graph.add_node(Linear{.x = x, .weight = weight, .y = y, .epilogue = {.bias = bias}});
    return y;
}

Result<Value> expert_linear(Graph& graph, Value x, Value weight, Value experts, std::uint64_t count) {
    const OperandCheck check(graph, ExpertLinear::kName);
    VKFORMER_CHECK(check.floats("x", x));
    VKFORMER_CHECK(check.present("weight", weight));
    VKFORMER_CHECK(check_weight_dtype(check, graph, weight, x));
    VKFORMER_CHECK(check.rank("weight", weight, "[experts * out, in]"));
    VKFORMER_CHECK(check.dtype("experts", experts, DType::i32));
    VKFORMER_CHECK(check.rank("experts", experts, "[rows, k]"));
    VKFORMER_CHECK(check.range("count", count, 1, kMostExperts));
    const Shape &w = graph.shape(weight), &chosen = graph.shape(experts);
    if (graph.shape(x).rank() == 3)
        VKFORMER_CHECK(check.shape("x", x, {chosen[0], chosen[1], w[1]}, "experts, and in of weight"));
    else
        VKFORMER_CHECK(check.shape("x", x, {chosen[0], w[1]}, "rows of experts, and in of weight"));
    if (w[0] % count != 0)
        return check.error(ErrorCode::ShapeMismatch, "weight has " + std::to_string(w[0]) +
                                                         " rows, expected a multiple of the " + std::to_string(count) +
                                                         " experts");

    const Shape shape{chosen[0], chosen[1], w[0] / count};
    VKFORMER_TRY(const Value y, graph.activation(ExpertLinear::kName, graph.dtype(x), shape));
    graph.add_node(ExpertLinear{.x = x, .weight = weight, .experts = experts, .y = y});
    return y;
}

}  // namespace vkformer::graph
