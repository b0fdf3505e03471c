// SPDX-License-Identifier: MIT
#include <cmath>

#include "graph/builders.hpp"
#include "graph/builders/check.hpp"

namespace vkformer::graph {
namespace {

Result<void> check_table(const OperandCheck& check, const Graph& graph, Value table) {
    VKFORMER_CHECK(check.present("table", table));
    const bool is_stored = is_weight_only(graph.dtype(table));
    if (!is_stored) VKFORMER_CHECK(check.floats("table", table));
    VKFORMER_CHECK(check.rank("table", table, "[vocab, dim]"));
    if (is_stored) return check.whole_blocks("table", table);
    return {};
}

}  // namespace

Result<Value> embedding(Graph& graph, Value tokens, Value table, float scale, std::optional<DType> result) {
    const OperandCheck check(graph, Embedding::kName);
    VKFORMER_CHECK(check.dtype("tokens", tokens, DType::i32));
    VKFORMER_CHECK(check_table(check, graph, table));
    const DType stored = graph.dtype(table);
    const DType dtype = result.value_or(is_weight_only(stored) ? DType::f32 : stored);
    if (dtype != DType::f32 && dtype != DType::f16)
        return check.error(ErrorCode::UnsupportedDtype,
                           "the result has dtype " + std::string(to_string(dtype)) + ", expected f32 or f16");
    const Shape& shape = graph.shape(tokens);
    if (shape.rank() > 3)
        return check.error(ErrorCode::ShapeMismatch,
                           "tokens has shape " + to_string(shape) + ", expected at most 3 dimensions");

    std::vector<std::uint64_t> dims(shape.dims().begin(), shape.dims().end());
    dims.push_back(graph.shape(table).back());
    VKFORMER_TRY(const Value y, graph.activation(Embedding::kName, dtype, Shape(dims)));
    graph.add_node(Embedding{.tokens = tokens, .table = table, .y = y, .scale = scale});
    return y;
}

Result<Value> positional_embedding(Graph& graph, Value x, Value table, Value starts) {
    const OperandCheck check(graph, PositionalEmbedding::kName);
    VKFORMER_CHECK(check.floats("x", x));
    VKFORMER_CHECK(check.rank("x", x, "[batch, len, dim]"));
    VKFORMER_CHECK(check.dtype("table", table, DType::f32));
    VKFORMER_CHECK(check.rank("table", table, "[positions, dim]"));
    VKFORMER_CHECK(check.shape("table", table, graph.shape(table).with_back(graph.shape(x).back()), "dim of x"));
    if (starts) {
        VKFORMER_CHECK(check.dtype("starts", starts, DType::i32));
        VKFORMER_CHECK(check.shape("starts", starts, {graph.shape(x)[0]}, "batch of x"));
    }

    const Shape shape = graph.shape(x);
    VKFORMER_TRY(const Value y, graph.activation(PositionalEmbedding::kName, graph.dtype(x), shape));
    graph.add_node(PositionalEmbedding{.x = x, .table = table, .starts = starts, .y = y});
    return y;
}

TensorData sinusoidal_table(std::uint64_t positions, std::uint64_t dim, SinusoidLayout layout) {
    const Shape shape{positions, dim};
    const auto count = shape.checked_element_count();
    if (!count || *count > Graph::kMaxElements) return {.shape = shape};  // no bytes: Graph::weight refuses it

    const std::uint64_t sines = (dim + 1) / 2;
    const auto table = std::make_shared<std::vector<float>>(*count);
    for (std::uint64_t k = 0; k < sines; ++k) {
        const double wavelength = std::pow(10000.0, 2.0 * static_cast<double>(k) / static_cast<double>(dim));
        const std::uint64_t sin_column = layout == SinusoidLayout::interleaved ? 2 * k : k;
        const std::uint64_t cos_column = layout == SinusoidLayout::interleaved ? 2 * k + 1 : sines + k;
        for (std::uint64_t p = 0; p < positions; ++p) {
            const double angle = static_cast<double>(p) / wavelength;
            (*table)[p * dim + sin_column] = static_cast<float>(std::sin(angle));
            if (cos_column < dim) (*table)[p * dim + cos_column] = static_cast<float>(std::cos(angle));
        }
    }
    return {.dtype = DType::f32, .shape = shape, .bytes = std::as_bytes(std::span(*table)), .owner = table};
}

}  // namespace vkformer::graph
