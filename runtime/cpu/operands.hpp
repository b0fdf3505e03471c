// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cpu/tensor.hpp"
#include "graph/graph.hpp"

namespace vkformer::cpu {

/// The operands of a node as spans of their elements, and their dims. Refers to graph and tensors.
template <std::floating_point T>
class Operands {
public:
    using Value = graph::Value;

    /// `tensors` by tensor id; views have none. rounds_attention: bfloat_pairs.hpp.
    Operands(const graph::Graph& graph, std::span<const std::shared_ptr<CpuTensor<T>>> tensors,
             bool rounds_attention = false)
        : graph_(graph), tensors_(tensors), rounds_attention_(rounds_attention) {}

    const graph::Graph& graph() const { return graph_; }
    DType dtype(Value value) const { return graph_.dtype(value); }
    const Shape& shape(Value value) const { return graph_.shape(value); }
    std::size_t dim(Value value, std::size_t axis) const { return shape(value)[axis]; }
    /// The last dimension, and the product of the others.
    std::size_t width(Value value) const { return shape(value).back(); }
    std::size_t rows(Value value) const { return shape(value).row_count(); }

    /// Empty for an absent operand.
    std::span<T> floats(Value value) const { return value ? std::span<T>(tensor(value).floats) : std::span<T>(); }
    std::span<std::int32_t> ints(Value value) const {
        return value ? std::span<std::int32_t>(tensor(value).ints) : std::span<std::int32_t>();
    }
    /// The same of one row.
    std::span<T> floats(Value value, std::size_t row) const {
        return value ? floats(value).subspan(row * width(value), width(value)) : std::span<T>();
    }
    std::span<std::int32_t> ints(Value value, std::size_t row) const {
        return value ? ints(value).subspan(row * width(value), width(value)) : std::span<std::int32_t>();
    }

    /// Null for a weight that is held as numbers.
    const PackedWeight* packed(Value value) const {
        const CpuTensor<T>& held = tensor(value);
        return held.packed ? &*held.packed : nullptr;
    }

    /// Whether these keys or values, a cache's or not, are bfloat16 for attention.
    bool rounds_to_bfloats(Value cache) const { return rounds_attention_ && dtype(cache) == DType::f32; }

private:
    CpuTensor<T>& tensor(Value value) const { return *tensors_[graph_.storage(value).id]; }

    const graph::Graph& graph_;
    std::span<const std::shared_ptr<CpuTensor<T>>> tensors_;
    bool rounds_attention_;
};

}  // namespace vkformer::cpu
