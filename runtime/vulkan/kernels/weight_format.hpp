// SPDX-License-Identifier: MIT
/// The specialization constant that says how a weight is stored (shaders/lib/weight_format.h).
#pragma once

#include "core/dtype.hpp"
#include "lib/weight_format.h"

namespace vkformer::vulkan {

/// Requires is_weight_only(dtype) or f16.
inline std::uint32_t weight_format(DType dtype) noexcept {
    switch (dtype) {
    case DType::q8_0: return shaders::kWeightQ8_0;
    case DType::q4_0: return shaders::kWeightQ4_0;
    case DType::q4_k: return shaders::kWeightQ4K;
    case DType::q5_k: return shaders::kWeightQ5K;
    case DType::q6_k: return shaders::kWeightQ6K;
    case DType::q4_1: return shaders::kWeightQ4_1;
    case DType::q5_0: return shaders::kWeightQ5_0;
    case DType::q5_1: return shaders::kWeightQ5_1;
    case DType::iq4_nl: return shaders::kWeightIq4Nl;
    case DType::iq4_xs: return shaders::kWeightIq4Xs;
    case DType::q2_k: return shaders::kWeightQ2K;
    case DType::q3_k: return shaders::kWeightQ3K;
    case DType::mxfp4: return shaders::kWeightMxfp4;
    case DType::f16: return shaders::kWeightF16;
    default: return shaders::kWeightBf16;
    }
}

}  // namespace vkformer::vulkan
