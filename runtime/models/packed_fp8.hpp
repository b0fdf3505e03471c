// SPDX-License-Identifier: MIT
/// Matrices of FP8 with scales, which two of the methods have.
#pragma once

#include <string_view>

#include "models/packed_layers.hpp"

namespace vkformer::models::packed {

/// A matrix of FP8 with one scale, one for each output [out] or [out, 1], or one for each block, as float16.
Result<TensorData> scaled_fp8(const Layer& layer, std::string_view scale_name, ScaleBlock block);
inline bool is_fp8(const TensorData& data) { return data.dtype == DType::f8_e4m3; }

/// Without the scales that activations and caches would be rounded by, which they are not here.
Weights without_activation_scales(Weights weights);

}  // namespace vkformer::models::packed
