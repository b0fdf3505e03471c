// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_POOL_H
#define VKFORMER_SHADERS_POOL_H
#include "lib/types.h"
SHARED_BEGIN
const uint kPoolX = 0, kPoolLengths = 1, kPoolY = 2;
const uint kPoolMode = 1, kPoolHasLengths = 2;  // specialization constants
const uint kPoolFirst = 0, kPoolLast = 1, kPoolMean = 2, kPoolRootMean = 3, kPoolWeightedMean = 4, kPoolMax = 5;
struct PoolPush {
    uint batch;
    uint len;     // rows per sequence
    uint width;   // elements per row
    uint blocks;  // workgroups per sequence
};
SHARED_END
#endif
