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

std::uint64_t AttentionMatrices::shared_bytes(const AttentionSizes& sizes) const {
    constexpr std::uint64_t kOctet = 16;  // bytes
    const std::uint64_t depth_pitch = round_up(sizes.head_dim, matrix.k) / 8 + 1;
    const std::uint64_t queries = rows() * depth_pitch, keys = tile_keys * depth_pitch;
    const std::uint64_t values = tile_keys * (round_up(sizes.value_dim, matrix.n) / 8 + 1);
    if (algorithm == MatrixAttention::register_weights)
        return std::max(queries, keys + values) * kOctet + rows() * 12 + 4;
    const std::uint64_t row_pitch = std::max(tile_keys / 4, tile_keys / 8 + matrix.n / 4) + 1;
    const std::uint64_t stage = std::max({keys, values, rows() * matrix.n / 4});
    return std::max(queries, stage + rows() * row_pitch) * kOctet + workgroup * 4 + 4;
}

std::optional<AttentionMatrices> attention_matrices(MatrixAttention algorithm, const AttentionSizes& sizes,
                                                    const Capabilities& device) {
    const auto is_enough = [&](std::uint32_t subgroups, std::uint32_t m) {
        constexpr std::uint64_t kCores = 96;  // of a large GPU
        return sizes.batch * sizes.kv_heads * ceil_div(sizes.rows(), std::uint64_t{subgroups} * m) >= kCores;
    };
    for (const std::uint32_t subgroups : {8u, 4u, 2u, 1u}) {
        const bool is_crowd = subgroups == 8;
        // Rows of more than 128 elements fill the registers, so that little can be loaded ahead. Longer tiles halve the barriers and the scaling
        // of the sums, and leave room for eight subgroups of longer rows; fewer subgroups would have too much of them to load.
        const std::uint32_t tile_keys = sizes.longest_row() > 128               ? 16
                                        : is_crowd || sizes.longest_row() <= 64 ? 64
                                                                                : 32;
        const auto matrix = half_matrix(device, std::min(tile_keys, 32u), 8);
        if (!matrix || sizes.longest_row() > shaders::kAttentionMatrixMaxDim) return std::nullopt;
        if (algorithm == MatrixAttention::register_weights && !takes_matrix2(*matrix, device)) return std::nullopt;
        // Eight share their tiles where they keep their weights to themselves, their rows are not too long, and the device is full with them.
        if (is_crowd && (algorithm != MatrixAttention::register_weights || sizes.longest_row() > 128 ||
                         !is_enough(subgroups, matrix->m)))
            continue;
        if (subgroups > 1 && sizes.rows() <= std::uint64_t{subgroups / 2} * matrix->m) continue;
        // At least that many subgroups, whatever size the driver gives them, and at least one invocation per row.
        const std::uint32_t workgroup =
            subgroups * std::max({matrix->m, device.subgroup_size, device.max_subgroup_size});
        const AttentionMatrices tiling{algorithm, *matrix, subgroups, tile_keys, workgroup};
        if (tiling.shared_bytes(sizes) <= device.max_shared_memory_bytes && workgroup <= shaders::kMaxWorkgroup &&
            workgroup <= device.max_workgroup_invocations)
            return tiling;
    }
    return std::nullopt;
}

}  // namespace vkformer::vulkan
