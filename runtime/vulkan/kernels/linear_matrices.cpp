// SPDX-License-Identifier: MIT
#include "vulkan/kernels/linear_matrices.hpp"

#include <algorithm>

#include "interface/linear.h"
#include "vulkan/kernels/half_matrix.hpp"
#include "vulkan/shader_table.h"

namespace vkformer::vulkan {
namespace {

/// Half of them are behind VK_NV_cooperative_matrix2.
constexpr std::string_view kMatrixVariants[] = {"coopmat",  "coopmat_small",  "coopmat_large",
                                                "coopmat2", "coopmat2_small", "coopmat2_large"};

}  // namespace

std::optional<LinearMatrices> linear_matrices(std::string_view variant, const Capabilities& device) {
    const bool large = variant.ends_with("_large");
    // Matrices per subgroup along the rows and as many along the columns. lavapipe, with its small matrices, would compile 4 × 4 of them
    // for many seconds and be no faster.
    const std::uint32_t steps = variant.ends_with("_small") || (device.type == "cpu" && large) ? 2 : 4;
    const bool per_element = variant.starts_with("coopmat2");
    const bool has_per_element = device.cooperative_matrix2 && device.cooperative_matrix2_parts.per_element_operations;
    if (!is_built(per_element ? "linear_coopmat2_f16" : "linear_coopmat_f16")) return std::nullopt;
    if (per_element && !has_per_element) return std::nullopt;
    const auto matrix = half_matrix(device, shaders::kLinearMatrixDepth, 8);
    if (!matrix || !device.float16 || !device.storage16 || (device.type == "cpu" && steps > 2)) return std::nullopt;
    const std::uint32_t row_grid = large ? 4 : 2;
    const std::uint32_t rows = row_grid * steps * matrix->m;
    const std::uint32_t columns = shaders::kLinearMatrixColumnGrid * steps * matrix->n;
    // so many that there are enough subgroups, whatever size the driver gives them
    const std::uint32_t workgroup =
        row_grid * shaders::kLinearMatrixColumnGrid * std::max(device.subgroup_size, device.max_subgroup_size);
    const std::uint32_t tiles = (rows + columns) * (shaders::kLinearMatrixDepth + 8) * 2;
    const std::uint32_t results = per_element ? 0 : row_grid * matrix->m * columns * 4;  // where the tiles were
    if (workgroup > device.max_workgroup_invocations || std::max(tiles, results) > device.max_shared_memory_bytes)
        return std::nullopt;
    return LinearMatrices{.per_element = per_element,
                          .workgroup = workgroup,
                          .rows = rows,
                          .columns = columns,
                          .constants = {matrix->m, matrix->n, matrix->k, steps, row_grid}};
}

VariantNames matrix_variants(std::uint64_t rows, const Capabilities& device) {
    VariantNames names;
    for (const std::string_view name : kMatrixVariants) {
        const auto matrices = linear_matrices(name, device);
        // Half of a large tile of few rows would be empty.
        if (matrices && (!name.ends_with("_large") || rows > matrices->rows / 2)) names.push_back(name);
    }
    return names;
}

}  // namespace vkformer::vulkan
