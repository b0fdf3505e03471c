// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_WEIGHTED_SUM_H
#define VKFORMER_SHADERS_WEIGHTED_SUM_H
#include "lib/types.h"
SHARED_BEGIN
const uint kWeightedSumWeights = 0, kWeightedSumValue = 1, kWeightedSumY = 2;
const uint kWeightedSumWorkgroup = 64;  // fixed: 8 × 8 invocations with 4 × 4 sums each make the tile
const uint kWeightedSumTile = 32;       // queries, columns and keys of a tile
const uint kWeightedSumRowWorkgroup = 64;  // row.comp: columns
struct WeightedSumPush {
    uint batch;
    uint query_len;
    uint key_len;
    uint heads;
    uint kv_heads;
    uint value_dim;
};
SHARED_END
#endif
