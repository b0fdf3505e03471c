// SPDX-License-Identifier: MIT
#include <cmath>

#include "graph/builders.hpp"
#include "graph/builders/check.hpp"

namespace vkformer::graph {

Result<Value> pool(Graph& graph, Value x, Value lengths, Pooling pooling) {
    const OperandCheck check(graph, Pool::kName);
    VKFORMER_CHECK(check.floats("x", x));
    VKFORMER_CHECK(check.rank("x", x, "[batch, len, dim]"));
    const std::uint64_t batch = graph.shape(x)[0], dim = graph.shape(x)[2];
    if (lengths) {
        VKFORMER_CHECK(check.dtype("lengths", lengths, DType::i32));
        VKFORMER_CHECK(check.shape("lengths", lengths, {batch}, "batch of x"));
    }
    VKFORMER_TRY(const Value y, graph.activation(Pool::kName, DType::f32, {batch, dim}));
    graph.add_node(Pool{.x = x, .lengths = lengths, .y = y, .pooling = pooling});
    return y;
}

// x / ‖x‖ = (1 / √dim) · x / sqrt(mean(x²) + eps). The eps of a norm of 1e-12, which keeps a row of zeros what it is.
Result<Value> l2_normalize(Graph& graph, Value x) {
    const OperandCheck check(graph, "l2_normalize");
    VKFORMER_CHECK(check.dtype("x", x, DType::f32));
    VKFORMER_CHECK(check.rows("x", x));
    const std::uint64_t dim = graph.shape(x).back();
    const auto gain =
        std::make_shared<std::vector<float>>(dim, static_cast<float>(1 / std::sqrt(static_cast<double>(dim))));
    VKFORMER_TRY(
        const Value inverse_root,
        graph.weight("inverse_root." + std::to_string(dim),
                     {.dtype = DType::f32, .shape = {dim}, .bytes = std::as_bytes(std::span(*gain)), .owner = gain},
                     DType::f32));
    return rms_norm(graph, x, inverse_root, 1e-24f / static_cast<float>(dim));
}

}  // namespace vkformer::graph
