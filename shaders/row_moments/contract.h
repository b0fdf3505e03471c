// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_ROW_MOMENTS_H
#define VKFORMER_SHADERS_ROW_MOMENTS_H
#include "lib/types.h"
SHARED_BEGIN
const uint kRowMomentsX = 0, kRowMomentsLike = 1, kRowMomentsY = 2;
const uint kRowMomentsHasLike = 1;  // specialization constant
const uint kRowMomentsKept = 2;     // specialization constant of row_vec4.comp: vectors of four that an invocation keeps
struct RowMomentsPush {
    uint rows;
    uint width;   // elements per row
    float bound;  // deviations of the cutoff or, with `like`, the least mean square of x
};
SHARED_END
#endif
