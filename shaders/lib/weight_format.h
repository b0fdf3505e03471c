// SPDX-License-Identifier: MIT
// How a weight is stored, where it is not stored as the activations are: a specialization constant of the shaders that include
// lib/dequantize.glsl.
#ifndef VKFORMER_SHADERS_WEIGHT_FORMAT_H
#define VKFORMER_SHADERS_WEIGHT_FORMAT_H
#include "lib/types.h"
SHARED_BEGIN
const uint kWeightBf16 = 0, kWeightQ8_0 = 1, kWeightQ4_0 = 2, kWeightQ4K = 3, kWeightQ5K = 4, kWeightQ6K = 5, kWeightF16 = 6;
const uint kWeightQ4_1 = 7, kWeightQ5_0 = 8, kWeightQ5_1 = 9, kWeightIq4Nl = 10, kWeightIq4Xs = 11, kWeightQ2K = 12, kWeightQ3K = 13;
const uint kWeightMxfp4 = 14;
SHARED_END
#endif
