// SPDX-License-Identifier: MIT
/// Which of a device's cooperative matrices the kernels are made of.
#pragma once

#include <optional>

#include "vulkan/cooperative_matrix.hpp"
#include "vulkan/kernels/kernel.hpp"

namespace vkformer::vulkan {

/// The largest matrices with float16 operands and float32 sums, of at most `depth` rows, whose n and k divide `depth`, the depth of a
/// kernel's tiles, and are multiples of `multiple`; or none.
inline std::optional<CooperativeMatrix> half_matrix(const Capabilities& device, std::uint32_t depth,
                                                    std::uint32_t multiple) {
    std::optional<CooperativeMatrix> best;
    for (const CooperativeMatrix& matrix : device.cooperative_matrices) {
        const auto& [m, n, k, a, b, c, result] = matrix;
        if (a != kComponentFloat16 || b != a || c != kComponentFloat32 || result != c) continue;
        if (m > depth || depth % n != 0 || depth % k != 0 || n % multiple != 0 || k % multiple != 0) continue;
        if (!best || m * n * k > best->m * best->n * best->k) best = matrix;
    }
    return best;
}

}  // namespace vkformer::vulkan
