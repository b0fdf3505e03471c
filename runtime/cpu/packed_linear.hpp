// SPDX-License-Identifier: MIT
/// linear() with a weight that stays in the format of its file.
#pragma once

#include <span>

#include "cpu/linear.hpp"
#include "cpu/packed_weight.hpp"

namespace vkformer::cpu {

/// As linear<float> with the weight's numbers, where weight.int8 is null; with it, x is rounded to 8 bits (int8_kernels.hpp). Few rows
/// are dot products with the packed bytes; for many, some rows of the weight at a time are laid out anew, as floats or bytes, in the cache
/// of the thread that multiplies them. Throws std::bad_alloc.
void packed_linear(std::span<const float> x, const PackedWeight& weight, std::span<const float> bias,
                   std::span<const float> residual, graph::Activation activation, const LinearDims& dims,
                   std::span<float> y);

}  // namespace vkformer::cpu
