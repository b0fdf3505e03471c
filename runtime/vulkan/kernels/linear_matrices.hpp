// SPDX-License-Identifier: MIT
/// linear_coopmat.comp, which multiplies cooperative matrices: its variants and what their workgroups compute. Called by linear.cpp
/// and linear_quantized.cpp.
#pragma once

#include <array>
#include <optional>

#include "vulkan/kernels/kernel.hpp"

namespace vkformer::vulkan {

/// As the ladder names them; two of them are behind VK_NV_cooperative_matrix2.
inline constexpr std::array<std::string_view, 4> kMatrixVariants = {"coopmat", "coopmat_small", "coopmat2",
                                                                    "coopmat2_small"};

struct LinearMatrices {
    bool per_element;                        ///< results go through the epilogue without passing shared memory
    std::uint32_t workgroup;                 ///< invocations
    std::uint32_t rows, columns;             ///< of y, that a workgroup computes
    std::array<std::uint32_t, 4> constants;  ///< from kLinearMatrixM on
};

/// Of a kMatrixVariants, or nothing where the device has no such matrices or too little memory for the tiles.
std::optional<LinearMatrices> linear_matrices(std::string_view variant, const Capabilities& device);

}  // namespace vkformer::vulkan
