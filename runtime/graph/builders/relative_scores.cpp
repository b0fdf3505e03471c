// SPDX-License-Identifier: MIT
#include "graph/builders.hpp"
#include "graph/builders/check.hpp"

namespace vkformer::graph {

Result<Value> relative_scores(Graph& graph, Value c2p, Value p2c, Value index, std::uint64_t batch) {
    const OperandCheck check(graph, RelativeScores::kName);
    const Value present = c2p ? c2p : p2c;
    for (const auto& [name, value] : {std::pair{"c2p", c2p}, std::pair{"p2c", p2c}}) {
        if (!value && present) continue;
        VKFORMER_CHECK(check.dtype(name, value, DType::f32));
        VKFORMER_CHECK(check.rank(name, value, "[1, heads, batch · len, rows]"));
        VKFORMER_CHECK(check.shape(name, value, graph.shape(present), "as c2p"));
    }
    const Shape scores = graph.shape(present);
    const std::uint64_t len = batch == 0 ? 0 : scores[2] / batch;
    VKFORMER_CHECK(check.shape(c2p ? "c2p" : "p2c", present, {1, scores[1], len * batch, scores[3]},
                               "one text, whole texts of the batch"));
    VKFORMER_CHECK(check.dtype("index", index, DType::i32));
    VKFORMER_CHECK(check.rank("index", index, "[distances]"));
    VKFORMER_CHECK(check.shape("index", index, {graph.shape(index)[0] | 1}, "an odd number, distance 0 in the middle"));
    VKFORMER_TRY(const Value y, graph.activation(RelativeScores::kName, DType::f32, {batch, scores[1], len, len}));
    graph.add_node(RelativeScores{.c2p = c2p, .p2c = p2c, .index = index, .y = y});
    return y;
}

}  // namespace vkformer::graph
