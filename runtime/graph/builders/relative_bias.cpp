// SPDX-License-Identifier: MIT
#include "graph/builders.hpp"
#include "graph/builders/check.hpp"

namespace vkformer::graph {

Result<Value> relative_bias(Graph& graph, Value table, Value starts, std::uint64_t query_len, std::uint64_t key_len) {
    const OperandCheck check(graph, RelativeBias::kName);
    VKFORMER_CHECK(check.dtype("table", table, DType::f32));
    VKFORMER_CHECK(check.rank("table", table, "[heads, distances]"));
    const Shape& shape = graph.shape(table);
    if (shape[1] % 2 == 0)
        return check.error(ErrorCode::ShapeMismatch, "table has shape " + to_string(shape) +
                                                         ", expected an odd number of distances, 0 in the middle");
    if (starts) {
        VKFORMER_CHECK(check.dtype("starts", starts, DType::i32));
        VKFORMER_CHECK(check.rank("starts", starts, "[batch]"));
    }
    const std::uint64_t batch = starts ? graph.shape(starts)[0] : 1;
    VKFORMER_TRY(const Value y,
                 graph.activation(RelativeBias::kName, DType::f32, {batch, shape[0], query_len, key_len}));
    graph.add_node(RelativeBias{.table = table, .starts = starts, .y = y});
    return y;
}

}  // namespace vkformer::graph
