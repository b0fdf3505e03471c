// SPDX-License-Identifier: MIT
#include <cmath>

#include "graph/builders.hpp"
#include "graph/builders/check.hpp"

namespace vkformer::graph {

Result<Value> activate(Graph& graph, Value x, Activation activation) {
    const OperandCheck check(graph, Activate::kName);
    VKFORMER_CHECK(check.floats("x", x));
    if (activation == Activation::none)
        return check.error(ErrorCode::InvalidArgument, "the activation is none, expected a function");

    const Shape shape = graph.shape(x);
    VKFORMER_TRY(const Value y, graph.activation(Activate::kName, graph.dtype(x), shape));
    graph.add_node(Activate{.x = x, .y = y, .activation = activation});
    return y;
}

Result<Value> soft_cap(Graph& graph, Value x, float cap) {
    const OperandCheck check(graph, SoftCap::kName);
    VKFORMER_CHECK(check.floats("x", x));
    if (!(cap > 0) || !std::isfinite(cap))
        return check.error(ErrorCode::InvalidArgument,
                           "cap is " + std::to_string(cap) + ", expected a positive number");

    const Shape shape = graph.shape(x);
    VKFORMER_TRY(const Value y, graph.activation(SoftCap::kName, graph.dtype(x), shape));
    graph.add_node(SoftCap{.x = x, .y = y, .cap = cap});
    return y;
}

Result<Value> add(Graph& graph, Value a, Value b, float scale) {
    const OperandCheck check(graph, Add::kName);
    VKFORMER_CHECK(check.floats("a", a));
    VKFORMER_CHECK(check_like(check, graph, "b", b, "a", a));
    VKFORMER_CHECK(check.shape("b", b, graph.shape(a), "as a"));
    if (!std::isfinite(scale))
        return check.error(ErrorCode::InvalidArgument, "scale is " + std::to_string(scale) + ", expected a number");

    const Shape shape = graph.shape(a);
    VKFORMER_TRY(const Value y, graph.activation(Add::kName, graph.dtype(a), shape));
    graph.add_node(Add{.a = a, .b = b, .y = y, .scale = scale});
    return y;
}

Result<Value> concat(Graph& graph, Value a, Value b) {
    const OperandCheck check(graph, Concat::kName);
    VKFORMER_CHECK(check.floats("a", a));
    VKFORMER_CHECK(check.rows("a", a));
    VKFORMER_CHECK(check_like(check, graph, "b", b, "a", a));
    VKFORMER_CHECK(check.rows("b", b));
    VKFORMER_CHECK(check.shape("b", b, graph.shape(a).with_back(graph.shape(b).back()), "as a but for the last"));

    const Shape shape = graph.shape(a).with_back(graph.shape(a).back() + graph.shape(b).back());
    VKFORMER_TRY(const Value y, graph.activation(Concat::kName, graph.dtype(a), shape));
    graph.add_node(Concat{.a = a, .b = b, .y = y});
    return y;
}

}  // namespace vkformer::graph
