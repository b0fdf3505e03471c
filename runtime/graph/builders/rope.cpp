// SPDX-License-Identifier: MIT
#include <cmath>

#include "graph/builders.hpp"
#include "graph/builders/check.hpp"

namespace vkformer::graph {

Result<Value> rope(Graph& graph, Value x, Value table, Value starts, RopePairing pairing) {
    const OperandCheck check(graph, Rope::kName);
    VKFORMER_CHECK(check.floats("x", x));
    VKFORMER_CHECK(check.rank("x", x, "[batch, len, heads, head_dim]"));
    const Shape shape = graph.shape(x);
    VKFORMER_CHECK(check_rope_table(check, graph, "x", table, shape[3]));
    if (starts) {
        VKFORMER_CHECK(check.dtype("starts", starts, DType::i32));
        VKFORMER_CHECK(check.shape("starts", starts, {shape[0]}, "batch of x"));
    } else if (graph.shape(table)[0] < shape[1]) {
        return check.error(ErrorCode::ShapeMismatch, "table has shape " + to_string(graph.shape(table)) +
                                                         ", expected at least " + std::to_string(shape[1]) +
                                                         " positions (len of x)");
    }

    VKFORMER_TRY(const Value y, graph.activation(Rope::kName, graph.dtype(x), shape));
    graph.add_node(Rope{.x = x, .table = table, .starts = starts, .y = y, .pairing = pairing});
    return y;
}

std::vector<double> rope_frequencies(std::uint64_t rotary_dim, double base) {
    std::vector<double> frequencies(rotary_dim / 2);
    for (std::size_t k = 0; k < frequencies.size(); ++k)
        frequencies[k] = std::pow(base, -2.0 * static_cast<double>(k) / static_cast<double>(rotary_dim));
    return frequencies;
}

TensorData rope_table(std::uint64_t positions, std::span<const double> frequencies, double scale) {
    const std::uint64_t half = frequencies.size();
    const Shape shape{positions, 2 * half};
    const auto count = shape.checked_element_count();
    if (!count || *count > Graph::kMaxElements) return {.shape = shape};  // no bytes: Graph::weight refuses it

    const auto table = std::make_shared<std::vector<float>>(*count);
    for (std::uint64_t p = 0; p < positions; ++p) {
        for (std::uint64_t k = 0; k < half; ++k) {
            const double angle = static_cast<double>(p) * frequencies[k];
            (*table)[p * 2 * half + k] = static_cast<float>(scale * std::cos(angle));
            (*table)[p * 2 * half + half + k] = static_cast<float>(scale * std::sin(angle));
        }
    }
    return {.dtype = DType::f32, .shape = shape, .bytes = std::as_bytes(std::span(*table)), .owner = table};
}

}  // namespace vkformer::graph
