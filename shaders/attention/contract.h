// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_ATTENTION_H
#define VKFORMER_SHADERS_ATTENTION_H
#include "lib/attention_mask.h"
#include "lib/pages.h"
SHARED_BEGIN
const uint kAttentionQuery = 0, kAttentionKey = 1, kAttentionValue = 2, kAttentionKeyLengths = 3, kAttentionStarts = 4,
           kAttentionAdditive = 5, kAttentionY = 6, kAttentionPages = 7;
const uint kAttentionWorkgroup = 128;  // fixed: kAttentionLaneRows × 16 invocations make the tile
const uint kAttentionLaneRows = 8;
const uint kAttentionTile = 32;  // keys, depth and columns of a tile; its queries: kAttentionLaneRows · steps
// Specialization constants:
const uint kAttentionQuerySteps = 1;  // queries per invocation: 1, 2 or 4
const uint kAttentionValueTiles = 2;  // tiles that cover value_dim
const uint kAttentionMask = 3;        // bits of lib/attention_mask.h
// attention/matrix.comp and matrix2.comp:
const uint kAttentionMatrixHeadDim = 4, kAttentionMatrixValueDim = 5;
const uint kAttentionMatrixM = 6, kAttentionMatrixN = 7, kAttentionMatrixK = 8;  // sizes that the device multiplies
const uint kAttentionMatrixSubgroups = 9;  // that multiply, each M rows of a workgroup: 1, 2, 4 or 8
const uint kAttentionMatrixTileKeys = 10;   // a multiple of N, K and 8
const uint kAttentionMatrixMaxDim = 256;   // of both: what they fill is registers
struct AttentionPush {
    uint batch;
    uint query_len;
    uint heads;
    uint kv_heads;
    uint head_dim;
    uint value_dim;
    uint kv_rows;  // rows of keys and of values: batch · key_len, or pages · kPageLen
    float scale;
    float soft_cap;  // 0: none
    AttentionMaskPush mask;
};
SHARED_END
#endif
