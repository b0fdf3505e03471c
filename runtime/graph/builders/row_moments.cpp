// SPDX-License-Identifier: MIT
#include <cmath>

#include "graph/builders.hpp"
#include "graph/builders/check.hpp"

namespace vkformer::graph {
namespace {

Result<Value> add_row_moments(Graph& graph, const OperandCheck& check, RowMoments op) {
    VKFORMER_CHECK(check.floats("x", op.x));
    VKFORMER_CHECK(check.rows("x", op.x));
    const Shape shape = graph.shape(op.x);
    if (op.like) {
        VKFORMER_CHECK(check_like(check, graph, "like", op.like, "x", op.x));
        VKFORMER_CHECK(check.shape("like", op.like, shape, "as x"));
    }
    VKFORMER_TRY(op.y, graph.activation(RowMoments::kName, graph.dtype(op.x), shape));
    graph.add_node(op);
    return op.y;
}

}  // namespace

Result<Value> gaussian_top_k(Graph& graph, Value x, float deviations) {
    const OperandCheck check(graph, "gaussian_top_k");
    if (!std::isfinite(deviations))
        return check.error(ErrorCode::InvalidArgument, "deviations are infinite or no number");
    return add_row_moments(graph, check, {.x = x, .bound = deviations});
}

Result<Value> match_magnitude(Graph& graph, Value x, Value like, float least) {
    const OperandCheck check(graph, "match_magnitude");
    VKFORMER_CHECK(check.present("like", like));
    if (!(least > 0) || !std::isfinite(least))
        return check.error(ErrorCode::InvalidArgument,
                           "least is " + std::to_string(least) + ", expected a positive number");
    return add_row_moments(graph, check, {.x = x, .like = like, .bound = least});
}

}  // namespace vkformer::graph
