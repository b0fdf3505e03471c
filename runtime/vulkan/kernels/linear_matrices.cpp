// SPDX-License-Identifier: MIT
#include "vulkan/kernels/linear_matrices.hpp"

#include <algorithm>

#include "interface/linear.h"
#include "vulkan/kernels/half_matrix.hpp"
#include "vulkan/shader_table.h"

namespace vkformer::vulkan {

std::optional<LinearMatrices> linear_matrices(std::string_view variant, const Capabilities& device) {
    // Matrices per subgroup along the rows and as many along the columns. lavapipe, with its small matrices, would compile 4 × 4 of them
    // for many seconds and be no faster.
    const std::uint32_t steps = variant.ends_with("_small") ? 2 : 4;
    const bool per_element = variant.starts_with("coopmat2");
    const bool has_per_element = device.cooperative_matrix2 && device.cooperative_matrix2_parts.per_element_operations;
    if (!is_built(per_element ? "linear_coopmat2_f16" : "linear_coopmat_f16")) return std::nullopt;
    if (per_element && !has_per_element) return std::nullopt;
    const auto matrix = half_matrix(device, shaders::kLinearMatrixDepth, 8);
    if (!matrix || !device.float16 || !device.storage16 || (device.type == "cpu" && steps > 2)) return std::nullopt;
    constexpr std::uint32_t kSubgroups = shaders::kLinearMatrixGrid * shaders::kLinearMatrixGrid;
    const std::uint32_t rows = shaders::kLinearMatrixGrid * steps * matrix->m;
    const std::uint32_t columns = shaders::kLinearMatrixGrid * steps * matrix->n;
    // so many that there are enough subgroups, whatever size the driver gives them
    const std::uint32_t workgroup = kSubgroups * std::max(device.subgroup_size, device.max_subgroup_size);
    const std::uint32_t tiles = (rows + columns) * (shaders::kLinearMatrixDepth + 8) * 2;
    const std::uint32_t results = per_element ? 0 : shaders::kLinearMatrixGrid * matrix->m * columns * 4;
    if (workgroup > device.max_workgroup_invocations || tiles + results > device.max_shared_memory_bytes)
        return std::nullopt;
    return LinearMatrices{.per_element = per_element,
                          .workgroup = workgroup,
                          .rows = rows,
                          .columns = columns,
                          .constants = {matrix->m, matrix->n, matrix->k, steps}};
}

}  // namespace vkformer::vulkan
