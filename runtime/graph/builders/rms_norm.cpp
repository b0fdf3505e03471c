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
    if (gain) VKFORMER_CHECK(check_gain(check, graph, gain, x));
    if (!(eps >= 0)) return check.error(ErrorCode::InvalidArgument, "eps is " + std::to_string(eps) + ", expected ≥ 0");
    if (!std::isfinite(gain_offset))
        return check.error(ErrorCode::InvalidArgument,
                           "gain_offset is " + std::to_string(gain_offset) + ", expected a finite number");

    VKFORMER_TRY(const Value y, graph.activation(RmsNorm::kName, graph.dtype(x), shape));
    graph.add_node(RmsNorm{.x = x, .gain = gain, .y = y, .eps = eps, .gain_offset = gain_offset});
    return y;
}

}  // namespace vkformer::graph
