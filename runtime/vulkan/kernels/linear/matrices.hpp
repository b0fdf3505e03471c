// SPDX-License-Identifier: MIT
/// linear/matrix.comp, which multiplies cooperative matrices.
#pragma once

#include <optional>

#include "vulkan/kernels/linear/linear.hpp"

namespace vkformer::vulkan {

/// What a workgroup owns: a tile of so many matrices, of 16 x 16 ones 32 x 128, 64 x 64, 128 x 128, the same by twice as many subgroups,
/// 128 x 192, 256 x 128.
enum class MatrixTile : std::uint8_t { flat, small, normal, dense, wide, large };

struct LinearMatrices {
    std::uint32_t workgroup;  ///< invocations
    LinearTile tile;
    // The constants from shaders::kLinearM on:
    std::uint32_t m, n, k;
    std::uint32_t row_steps, column_steps;  ///< matrices of a subgroup
    std::uint32_t row_grid, column_grid;    ///< subgroups
    std::uint32_t depth;                    ///< of a slice
    bool is_ahead;                          ///< operands are loaded a step before they are multiplied
};

/// Nothing where the device or this build has no such matrices, or where there is too little memory for the tiles. `is_unpacked`: the
/// weight has a format of its own.
std::optional<LinearMatrices> linear_matrices(MatrixTile tile, bool is_unpacked, const Capabilities& device);

/// Whether cooperative matrices take x and weight, where the device has them.
bool takes_matrices(const Product& product);

bool fits_matrix(MatrixTile tile, const graph::Linear& op, const KernelContext& context);
Result<DispatchPlan> plan_matrix(MatrixTile tile, const graph::Linear& op, Operand x, const KernelContext& context);

/// The depth in parts, in tiles of 128 x 128 or, of fewer rows, in small or flat ones.
bool fits_matrix_split(const graph::Linear& op, const KernelContext& context);
Result<DispatchPlan> plan_matrix_split(const graph::Linear& op, Operand x, const KernelContext& context);

}  // namespace vkformer::vulkan
