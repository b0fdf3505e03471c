// SPDX-License-Identifier: MIT
/// How attention/matrix.comp and attention/matrix2.comp, which multiply cooperative matrices, are cut.
#pragma once

#include <optional>

#include "vulkan/kernels/attention/attention.hpp"

namespace vkformer::vulkan {

enum class MatrixAttention : std::uint8_t {
    shared_weights,    ///< matrix.comp: the weights pass shared memory between the two products
    register_weights,  ///< matrix2.comp: the sums of one product are an operand of the next
};

constexpr const ShaderFamily& family_of(MatrixAttention algorithm, bool blocks) {
    if (algorithm == MatrixAttention::shared_weights)
        return blocks ? modules::attention_matrix_q8 : modules::attention_matrix;
    return blocks ? modules::attention_matrix2_q8 : modules::attention_matrix2;
}

struct AttentionMatrices {
    MatrixAttention algorithm;
    CooperativeMatrix matrix;
    std::uint32_t subgroups;  ///< that multiply
    std::uint32_t tile_keys;
    std::uint32_t workgroup;  ///< invocations: a multiple of the rows

    /// Queries of a workgroup.
    std::uint64_t rows() const { return std::uint64_t{matrix.m} * subgroups; }
    /// What the shader declares.
    std::uint64_t shared_bytes(const AttentionSizes& sizes) const;
};

/// The largest tiling of the rows that the device has memory for, or none.
std::optional<AttentionMatrices> attention_matrices(MatrixAttention algorithm, const AttentionSizes& sizes,
                                                    const Capabilities& device);

}  // namespace vkformer::vulkan
