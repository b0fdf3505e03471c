// SPDX-License-Identifier: MIT
#include <cmath>

#include "graph/builders.hpp"
#include "graph/builders/check.hpp"

namespace vkformer::graph {
namespace {

/// The shape of y, from the operands.
Result<Shape> gated_shape(const OperandCheck& check, const Graph& graph, Value gate, Value up) {
    const Shape& shape = graph.shape(gate);
    if (up) {
        VKFORMER_CHECK(check_like(check, graph, "up", up, "gate", gate));
        VKFORMER_CHECK(check.shape("up", up, shape, "as gate"));
        return shape;
    }
    VKFORMER_CHECK(check.rows("gate", gate));
    if (shape.back() % 2 == 0) return shape.with_back(shape.back() / 2);
    return check.error(ErrorCode::ShapeMismatch,
                       "gate has shape " + to_string(shape) + ", expected an even last dimension (gates, then up)");
}

}  // namespace

Result<Value> gated_activation(Graph& graph, Value gate, Value up, Activation activation, const GateClamp& clamp) {
    const OperandCheck check(graph, GatedActivation::kName);
    if (!(clamp.limit >= 0) || !std::isfinite(clamp.limit) || !std::isfinite(clamp.up_shift))
        return check.error(ErrorCode::InvalidArgument, "the clamp is " + std::to_string(clamp.limit) +
                                                           " and a shift of " + std::to_string(clamp.up_shift) +
                                                           ", expected a positive number, or 0 for none, and a number");
    VKFORMER_CHECK(check.floats("gate", gate));
    VKFORMER_TRY(const Shape shape, gated_shape(check, graph, gate, up));

    VKFORMER_TRY(const Value y, graph.activation(GatedActivation::kName, graph.dtype(gate), shape));
    graph.add_node(GatedActivation{.gate = gate, .up = up, .y = y, .activation = activation, .clamp = clamp});
    return y;
}

}  // namespace vkformer::graph
