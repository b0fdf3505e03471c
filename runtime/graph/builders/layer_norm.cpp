// SPDX-License-Identifier: MIT
#include "graph/builders.hpp"
#include "graph/builders/check.hpp"

namespace vkformer::graph {

Result<Value> layer_norm(Graph& graph, Value x, Value gain, Value bias, float eps) {
    const OperandCheck check(graph, LayerNorm::kName);
    VKFORMER_CHECK(check.floats("x", x));
    VKFORMER_CHECK(check.rows("x", x));
    const Shape shape = graph.shape(x);
    VKFORMER_CHECK(check_gain(check, graph, gain, x));
    if (bias) {
        VKFORMER_CHECK(check_like(check, graph, "bias", bias, "x", x));
        VKFORMER_CHECK(check.shape("bias", bias, {shape.back()}, "dim of x"));
    }
    if (!(eps >= 0)) return check.error(ErrorCode::InvalidArgument, "eps is " + std::to_string(eps) + ", expected ≥ 0");

    VKFORMER_TRY(const Value y, graph.activation(LayerNorm::kName, graph.dtype(x), shape));
    graph.add_node(LayerNorm{.x = x, .gain = gain, .bias = bias, .y = y, .eps = eps});
    return y;
}

}  // namespace vkformer::graph
