// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_TOP_K_H
#define VKFORMER_SHADERS_TOP_K_H
#include "lib/types.h"
SHARED_BEGIN
const uint kTopKX = 0, kTopKValues = 1, kTopKIndices = 2;
struct TopKPush {
    uint rows;
    uint width;  // elements per row
    uint k;      // elements to choose, at most width
};
SHARED_END
#endif
