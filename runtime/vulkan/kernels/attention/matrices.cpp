// SPDX-License-Identifier: MIT
#include "vulkan/kernels/attention/matrices.hpp"

#include <algorithm>

#include "attention/contract.h"
#include "vulkan/kernels/half_matrix.hpp"

namespace vkformer::vulkan {
namespace {

/// Whether attention/matrix2.comp runs there: the sums of one product are an operand of the next.
bool takes_matrix2(const CooperativeMatrix& matrix, const Capabilities& device) {
    const CooperativeMatrix2& has = device.cooperative_matrix2_parts;
    return device.cooperative_matrix2 && has.per_element_operations && has.reductions && has.conversions &&
           matrix.n == matrix.k;
}

}  // namespace

std::uint32_t AttentionMatrices::workgroup(const Capabilities& device) const {
    return subgroups * std::max({matrix.m, device.subgroup_size, device.max_subgroup_size});
}

std::uint64_t AttentionMatrices::shared_bytes(const AttentionSizes& sizes) const {
    const std::uint64_t pitch = std::max(round_up(sizes.head_dim, matrix.k), round_up(sizes.value_dim, matrix.n)) + 8;
    const std::uint64_t stage = std::max<std::uint64_t>(rows(), tile_keys) * pitch * 2;
    if (algorithm == MatrixAttention::register_weights) return 2 * stage + rows() * 12 + 4;
    const std::uint64_t scores_and_weights = rows() * ((tile_keys + 4) * 4 + (tile_keys + 8) * 2);
    return stage + scores_and_weights + rows() * matrix.n * 4 + shaders::kMaxWorkgroup * 4 + 4;
}

std::optional<AttentionMatrices> attention_matrices(MatrixAttention algorithm, const AttentionSizes& sizes,
                                                    const Capabilities& device) {
    constexpr std::uint32_t kShortTile = 32;  // of keys
    const auto matrix = half_matrix(device, kShortTile, 4);
    if (!matrix || sizes.longest_row() > shaders::kAttentionMatrixMaxDim) return std::nullopt;
    if (algorithm == MatrixAttention::register_weights && !takes_matrix2(*matrix, device)) return std::nullopt;
    const std::uint64_t rows = sizes.rows();
    // 64 keys halve the barriers; with rows longer than 96 elements they would leave room for one workgroup per core only.
    for (std::uint32_t subgroups = rows > 2 * matrix->m ? 4 : rows > matrix->m ? 2 : 1; subgroups > 0; subgroups /= 2)
        for (const std::uint32_t tile_keys : {sizes.longest_row() > 96 ? 32u : 64u, 32u}) {
            const AttentionMatrices tiling{algorithm, *matrix, subgroups, tile_keys};
            const std::uint32_t workgroup = tiling.workgroup(device);
            if (tiling.shared_bytes(sizes) <= device.max_shared_memory_bytes && workgroup <= shaders::kMaxWorkgroup &&
                workgroup <= device.max_workgroup_invocations)
                return tiling;
        }
    return std::nullopt;
}

}  // namespace vkformer::vulkan
