// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_ARG_MAX_H
#define VKFORMER_SHADERS_ARG_MAX_H
#include "lib/types.h"
SHARED_BEGIN
const uint kArgMaxX = 0, kArgMaxY = 1, kArgMaxParts = 2;
// Specialization constants of row_split.comp: the parts of a row, and whether it chooses among what they have left.
const uint kArgMaxSplits = 1, kArgMaxCombines = 2;
struct ArgMaxPush {
    uint rows;
    uint width;  // elements per row
};
SHARED_END
#endif
