// SPDX-License-Identifier: MIT
/// linear/matrix.comp, which multiplies cooperative matrices.
#pragma once

#include <optional>

#include "vulkan/kernels/linear/linear.hpp"

namespace vkformer::vulkan {

/// What a workgroup owns: a tile of so many matrices.
struct MatrixForm {
    enum class Results : std::uint8_t {
        shared_memory,  ///< pass shared memory on their way to the epilogue
        registers,      ///< go through the epilogue where they are: VK_NV_cooperative_matrix2
    };
    enum class Size : std::uint8_t { normal, small, large };
    Results results;
    Size size;
};

struct LinearMatrices {
    std::uint32_t workgroup;  ///< invocations
    LinearTile tile;
    std::uint32_t m, n, k, steps, row_grid;  ///< the constants from shaders::kLinearM on
};

/// Nothing where the device or this build has no such matrices, or where there is too little memory for the tiles.
std::optional<LinearMatrices> linear_matrices(MatrixForm form, const Capabilities& device);

/// Whether cooperative matrices take x and weight, where the device has them.
bool takes_matrices(const Product& product);

bool fits_matrix(MatrixForm form, const graph::Linear& op, const KernelContext& context);
Result<DispatchPlan> plan_matrix(MatrixForm form, const graph::Linear& op, Operand x, const KernelContext& context);

/// The depth in parts, in normal tiles or, of few rows, in small ones.
bool fits_matrix_split(const graph::Linear& op, const KernelContext& context);
Result<DispatchPlan> plan_matrix_split(const graph::Linear& op, Operand x, const KernelContext& context);

}  // namespace vkformer::vulkan
