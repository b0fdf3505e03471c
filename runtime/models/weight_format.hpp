// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "core/tensor_data.hpp"
#include "graph/weight_dtype.hpp"

namespace vkformer::models {

/// How weights are stored on the device.
enum class WeightFormat : std::uint8_t {
    as_computed,  ///< in the dtype of the activations
    as_filed,     ///< 16 bits and block formats stay what they are where a product can read them; others as computed
};

/// What a matrix [.., in] is stored as, of a product or a table of tokens, beside activations of dtype `computed`.
inline DType stored_dtype(const TensorData& matrix, DType computed, WeightFormat format) noexcept {
    constexpr std::uint64_t kWeightOnlyMultiple = 32;  // of is_unpacked
    const bool stays = format == WeightFormat::as_filed && graph::is_unpacked(matrix.dtype, computed) &&
                       matrix.shape.back() % kWeightOnlyMultiple == 0;
    return stays ? matrix.dtype : computed;
}

}  // namespace vkformer::models
