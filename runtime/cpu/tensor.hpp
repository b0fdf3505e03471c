// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/dtype.hpp"
#include "core/shape.hpp"
#include "cpu/packed_weight.hpp"

namespace vkformer::cpu {

/// One tensor. Floats are held as T whatever the dtype says, so that a result is rounded once, to T, and never to f16. Weights that
/// only products and embeddings read stay packed, for float, where there is a kernel: the numbers are the same.
template <std::floating_point T>
struct CpuTensor {
    DType dtype;
    Shape shape;
    std::span<T> floats{};              ///< of f32 and f16: own_floats, or a part of an arena
    std::vector<std::int32_t> ints{};   ///< of i32
    std::shared_ptr<T[]> own_floats{};  ///< of a pool, or the arena
    /// A weight that float programs read as its file has it, in place of `floats`; double programs never do.
    std::optional<PackedWeight> packed{};
};

}  // namespace vkformer::cpu
