// SPDX-License-Identifier: MIT
/// The specialization constant that says how a weight is stored (shaders/interface/weight_format.h).
#pragma once

#include "core/dtype.hpp"
#include "interface/weight_format.h"

namespace vkformer::vulkan {

/// Requires is_weight_only(dtype) or f16.
inline std::uint32_t weight_format(DType dtype) noexcept {
    switch (dtype) {
    case DType::q8_0: return shaders::kWeightQ8_0;
    case DType::q4_0: return shaders::kWeightQ4_0;
    case DType::q4_k: return shaders::kWeightQ4K;
    case DType::q5_k: return shaders::kWeightQ5K;
    case DType::q6_k: return shaders::kWeightQ6K;
    case DType::f16: return shaders::kWeightF16;
    default: return shaders::kWeightBf16;
    }
}

}  // namespace vkformer::vulkan
