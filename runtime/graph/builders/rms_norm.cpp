// SPDX-License-Identifier: MIT
#include <cmath>

#include "graph/builders.hpp"
#include "graph/builders/check.hpp"

namespace vkformer::graph {

Result<Value> rms_norm(Graph& graph, Value x, Value gain, float eps, float gain_offset) {
    const OperandCheck check(graph, RmsNorm::kName);
    VKFORMER_CHECK(check.floats("x", x));
    VKFORMER_CHECK(check.rows("x", x));
    const Shape shape = graph.shape(x);
    if (gain) {
        VKFORMER_CHECK(check_like(check, graph, "gain", gain, "x", x));
        const bool is_one_row = shape.rank() < 2 || graph.shape(gain).rank() != 2;
        VKFORMER_CHECK(is_one_row ? check.shape("gain", gain, {shape.back()}, "dim of x")
                                  : check.shape("gain", gain, {shape[shape.rank() - 2], shape.back()},
                                                "the last two dimensions of x"));
    }
    if (!(eps >= 0)) return check.error(ErrorCode::InvalidArgument, "eps is " + std::to_string(eps) + ", expected ≥ 0");
    if (!std::isfinite(gain_offset))
        return check.error(ErrorCode::InvalidArgument,
                           "gain_offset is " + std::to_string(gain_offset) + ", expected a finite number");

    VKFORMER_TRY(const Value y, graph.activation(RmsNorm::kName, graph.dtype(x), shape));
    graph.add_node(RmsNorm{.x = x, .gain = gain, .y = y, .eps = eps, .gain_offset = gain_offset});
    return y;
}

}  // namespace vkformer::graph
