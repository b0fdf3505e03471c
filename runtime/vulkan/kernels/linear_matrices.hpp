// SPDX-License-Identifier: MIT
/// linear_coopmat.comp, which multiplies cooperative matrices: its variants and what their workgroups compute. Called by linear.cpp
/// and linear_quantized.cpp.
#pragma once

#include <array>
#include <optional>

#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

struct LinearMatrices {
    bool per_element;                        ///< results go through the epilogue without passing shared memory
    std::uint32_t workgroup;                 ///< invocations
    std::uint32_t rows, columns;             ///< of y, that a workgroup computes
    std::array<std::uint32_t, 5> constants;  ///< from kLinearMatrixM on
};

/// Of a variant that is one of theirs, "coopmat…", or nothing where the device has no such matrices or too little memory for the tiles.
std::optional<LinearMatrices> linear_matrices(std::string_view variant, const Capabilities& device);

/// Those for so many rows, as the ladder names them.
VariantNames matrix_variants(std::uint64_t rows, const Capabilities& device);

}  // namespace vkformer::vulkan
