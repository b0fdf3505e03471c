// SPDX-License-Identifier: MIT
#pragma once

#include "core/dtype.hpp"

namespace vkformer::graph {

/// Whether a product with activations of dtype `x` unpacks a weight that is stored as `weight`, with `in` a multiple of 32 and of its
/// block: bfloat16 and block formats always, float16 where it meets float32. Else both have one dtype.
inline bool is_unpacked(DType weight, DType x) noexcept {
    return is_weight_only(weight) || (weight == DType::f16 && x == DType::f32);
}

}  // namespace vkformer::graph
