// SPDX-License-Identifier: MIT
/// What the builders check of their operands. Each check names the op, the operand, what was found and what was expected.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "core/try.hpp"
#include "graph/graph.hpp"
#include "graph/pages.hpp"

namespace vkformer::graph {

class OperandCheck {
public:
    OperandCheck(const Graph& graph, std::string_view op) : graph_(graph), op_(op) {}

    /// "attention: <what>"
    Error error(ErrorCode code, const std::string& what) const { return {code, std::string(op_) + ": " + what}; }

    /// A tensor of this graph.
    Result<void> present(std::string_view name, Value value) const {
        if (!value) return error(ErrorCode::InvalidArgument, std::string(name) + " is absent");
        if (value.id >= graph_.tensors().size())
            return error(ErrorCode::InvalidArgument, std::string(name) + " is no tensor of this graph");
        return {};
    }

    Result<void> dtype(std::string_view name, Value value, DType expected, std::string_view why = {}) const {
        VKFORMER_CHECK(present(name, value));
        if (graph_.dtype(value) == expected) return {};
        return error(ErrorCode::UnsupportedDtype,
                     found_dtype(name, value) + ", expected " + std::string(to_string(expected)) + in_brackets(why));
    }

    /// f32 or f16.
    Result<void> floats(std::string_view name, Value value) const {
        VKFORMER_CHECK(present(name, value));
        if (graph_.dtype(value) == DType::f32 || graph_.dtype(value) == DType::f16) return {};
        return error(ErrorCode::UnsupportedDtype, found_dtype(name, value) + ", expected f32 or f16");
    }

    Result<void> shape(std::string_view name, Value value, const Shape& expected, std::string_view why = {}) const {
        VKFORMER_CHECK(present(name, value));
        if (graph_.shape(value) == expected) return {};
        return error(ErrorCode::ShapeMismatch,
                     found_shape(name, value) + ", expected " + to_string(expected) + in_brackets(why));
    }

    /// `layout` names the dimensions, as in "[batch, len, dim]", and so says how many there are.
    Result<void> rank(std::string_view name, Value value, std::string_view layout) const {
        VKFORMER_CHECK(present(name, value));
        const auto dims = static_cast<std::size_t>(std::ranges::count(layout, ',')) + 1;
        if (graph_.shape(value).rank() == dims) return {};
        return error(ErrorCode::ShapeMismatch, found_shape(name, value) + ", expected " + std::to_string(dims) +
                                                   (dims == 1 ? " dimension " : " dimensions ") + std::string(layout));
    }

    /// For dtypes that only weights are stored as: rows are whole groups of the shaders, 32 elements, or blocks.
    Result<void> whole_blocks(std::string_view name, Value value) const {
        const DType dtype = graph_.dtype(value);
        const std::uint64_t width = graph_.shape(value).back(), unit = std::max<std::size_t>(32, block_elements(dtype));
        if (width % unit == 0) return {};
        return error(ErrorCode::ShapeMismatch, std::string(name) + " is " + std::string(to_string(dtype)) +
                                                   " and has rows of " + std::to_string(width) +
                                                   " elements, expected a multiple of " + std::to_string(unit));
    }

    /// At least one dimension.
    Result<void> rows(std::string_view name, Value value) const {
        VKFORMER_CHECK(present(name, value));
        if (graph_.shape(value).rank() >= 1) return {};
        return error(ErrorCode::ShapeMismatch, found_shape(name, value) + ", expected at least 1 dimension");
    }

    /// `count` lies in first … last.
    Result<void> range(std::string_view name, std::uint64_t count, std::uint64_t first, std::uint64_t last) const {
        if (first <= count && count <= last) return {};
        return error(ErrorCode::InvalidArgument, std::string(name) + " is " + std::to_string(count) + ", expected " +
                                                     std::to_string(first) + " to " + std::to_string(last));
    }

    Result<void> state(std::string_view name, Value value) const {
        VKFORMER_CHECK(present(name, value));
        if (graph_.tensor(value).kind == TensorKind::state) return {};
        return error(ErrorCode::InvalidArgument,
                     std::string(name) + " (" + graph_.tensor(value).name + ") is no state, but the op updates it");
    }

    /// An i32 state of that shape.
    Result<void> i32_state(std::string_view name, Value value, const Shape& expected, std::string_view why) const {
        VKFORMER_CHECK(dtype(name, value, DType::i32));
        VKFORMER_CHECK(state(name, value));
        return shape(name, value, expected, why);
    }

    /// No two of them share memory.
    Result<void> distinct(std::initializer_list<std::pair<std::string_view, Value>> operands) const {
        for (auto a = operands.begin(); a != operands.end(); ++a)
            for (auto b = operands.begin(); b != a; ++b)
                if (graph_.storage(a->second) == graph_.storage(b->second))
                    return error(ErrorCode::InvalidArgument, std::string(b->first) + " and " + std::string(a->first) +
                                                                 " are the same tensor (" +
                                                                 graph_.tensor(a->second).name + ")");
        return {};
    }

private:
    std::string found_dtype(std::string_view name, Value value) const {
        return std::string(name) + " has dtype " + std::string(to_string(graph_.dtype(value)));
    }
    std::string found_shape(std::string_view name, Value value) const {
        return std::string(name) + " has shape " + to_string(graph_.shape(value));
    }
    static std::string in_brackets(std::string_view why) {
        return why.empty() ? std::string() : " (" + std::string(why) + ")";
    }

    const Graph& graph_;
    std::string_view op_;
};

/// f32 or f16, of the dtype of the operand called `like_name`.
inline Result<void> check_like(const OperandCheck& check, const Graph& graph, std::string_view name, Value value,
                               std::string_view like_name, Value like) {
    return check.dtype(name, value, graph.dtype(like), "as " + std::string(like_name));
}

/// The gains of a norm of x: a row for all of x's, or one for each place in its last dimension but one.
inline Result<void> check_gain(const OperandCheck& check, const Graph& graph, Value gain, Value x) {
    VKFORMER_CHECK(check_like(check, graph, "gain", gain, "x", x));
    const Shape& shape = graph.shape(x);
    if (shape.rank() < 2 || graph.shape(gain).rank() != 2) return check.shape("gain", gain, {shape.back()}, "dim of x");
    return check.shape("gain", gain, {shape[shape.rank() - 2], shape.back()}, "the last two dimensions of x");
}

/// A table of the pages that the sequences of the operand called `of` have, and a cache in pages that is called `name`.
inline Result<void> check_pages(const OperandCheck& check, const Graph& graph, Value pages, std::uint64_t sequences,
                                std::string_view of, std::string_view name, Value cache) {
    VKFORMER_CHECK(check.dtype("pages", pages, DType::i32));
    VKFORMER_CHECK(check.rank("pages", pages, "[batch, table_len]"));
    const std::uint64_t table_len = graph.shape(pages)[1];
    VKFORMER_CHECK(check.shape("pages", pages, {sequences, table_len}, "batch of " + std::string(of)));
    VKFORMER_CHECK(check.range("table_len", table_len, 1, Graph::kMaxElements / kPageLen));
    const Shape& shape = graph.shape(cache);
    if (shape.rank() >= 2 && shape[1] == kPageLen) return {};
    return check.error(ErrorCode::ShapeMismatch, std::string(name) + " has shape " + to_string(shape) +
                                                     ", expected pages of " + std::to_string(kPageLen) + " positions");
}

/// The angles of rope for heads of `head_dim` elements of the operand called `of`.
inline Result<void> check_rope_table(const OperandCheck& check, const Graph& graph, std::string_view of, Value table,
                                     std::uint64_t head_dim) {
    VKFORMER_CHECK(check.dtype("table", table, DType::f32));
    VKFORMER_CHECK(check.rank("table", table, "[positions, rotary_dim]"));
    const Shape& shape = graph.shape(table);
    if (shape[1] % 2 == 0 && shape[1] <= head_dim) return {};
    return check.error(ErrorCode::ShapeMismatch,
                       "table has shape " + to_string(shape) + ", expected an even rotary_dim of at most " +
                           std::to_string(head_dim) + " (head_dim of " + std::string(of) + ")");
}

}  // namespace vkformer::graph
