// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_RMS_NORM_H
#define VKFORMER_SHADERS_RMS_NORM_H
#include "lib/types.h"
SHARED_BEGIN
const uint kRmsNormX = 0, kRmsNormResidual = 1, kRmsNormGain = 2, kRmsNormSum = 3, kRmsNormY = 4;
// Specialization constants, 1 where the operand is present; an absent operand's binding is not touched.
const uint kRmsNormHasResidual = 1, kRmsNormHasGain = 2, kRmsNormHasSum = 3;
const uint kRmsNormKept = 4;  // specialization constant of row_vec4.comp: vectors of four that an invocation keeps
struct RmsNormPush {
    uint rows;
    uint width;         // elements per row
    float eps;          // added to the mean square
    float gain_offset;  // added to every gain
    uint gain_rows;     // row r has the gains of row r % gain_rows
};
SHARED_END
#endif
