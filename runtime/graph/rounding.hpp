// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace vkformer::graph {

/// What the implementation of a node rounds beyond its operands' dtypes and sums of float32. Bounds: validation/bounds.cpp.
enum class Rounding : std::uint8_t {
    none,
    half_sums,      ///< sums of up to 8 products are float16
    half_products,  ///< weights of their own format, and float32 activations, become float16
    int8,           ///< activations become 8 bits with a scale for each block
    bfloat,         ///< of attention: queries, keys, values and weights become bfloat16
};

}  // namespace vkformer::graph
