// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_LAYER_NORM_H
#define VKFORMER_SHADERS_LAYER_NORM_H
#include "lib/types.h"
SHARED_BEGIN
const uint kLayerNormX = 0, kLayerNormResidual = 1, kLayerNormGain = 2, kLayerNormBias = 3, kLayerNormSum = 4,
           kLayerNormY = 5;
// Specialization constants, 1 where the operand is present; an absent operand's binding is not touched.
const uint kLayerNormHasResidual = 1, kLayerNormHasBias = 2, kLayerNormHasSum = 3;
const uint kLayerNormKept = 4;  // specialization constant of row_vec4.comp: vectors of four that an invocation keeps
struct LayerNormPush {
    uint rows;
    uint width;      // elements per row
    float eps;       // added to the variance
    uint gain_rows;  // row r has the gains of row r % gain_rows
};
SHARED_END
#endif
