// SPDX-License-Identifier: MIT
/// What tests of builders share: operands on demand, and the check that a builder refuses them.
#pragma once

#include <algorithm>
#include <string>

#include "graph/builders.hpp"
#include "support/catch.h"
#include "support/must.hpp"

namespace vkformer::tests {

/// A graph with inputs made on demand: x(DType::f32, {2, 3}).
struct Inputs {
    graph::Graph graph;
    int count = 0;

    graph::Value operator()(DType dtype, const Shape& shape) {
        return must(graph.input("input" + std::to_string(count++), dtype, shape));
    }
    graph::Value state(DType dtype, const Shape& shape) {
        return must(graph.state("state" + std::to_string(count++), dtype, shape));
    }
};

/// What builders add to a graph: nodes, activations, weights.
inline std::size_t made_by_builders(const graph::Graph& graph) {
    const auto is_made = [](const graph::Tensor& tensor) {
        return tensor.kind == graph::TensorKind::activation || tensor.kind == graph::TensorKind::weight;
    };
    return graph.nodes().size() + static_cast<std::size_t>(std::ranges::count_if(graph.tensors(), is_made));
}

inline void check_error(bool succeeded, const Error& error, ErrorCode code, const std::string& message) {
    REQUIRE_FALSE(succeeded);
    CHECK(error.message == message);
    CHECK(to_string(error.code) == to_string(code));
}

/// The builder refuses with this code and message, and leaves the graph as it was.
#define CHECK_REFUSED(in, call, code, message)                                       \
    do {                                                                             \
        const std::size_t before = made_by_builders((in).graph);                     \
        const auto result = call;                                                    \
        check_error(bool(result), result ? Error{} : result.error(), code, message); \
        CHECK(made_by_builders((in).graph) == before);                               \
    } while (false)

inline constexpr DType f32 = DType::f32, f16 = DType::f16, i32 = DType::i32;
inline constexpr ErrorCode kShape = ErrorCode::ShapeMismatch, kDtype = ErrorCode::UnsupportedDtype,
                           kInvalid = ErrorCode::InvalidArgument;

}  // namespace vkformer::tests
