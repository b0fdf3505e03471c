// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_ATTENTION_H
#define VKFORMER_SHADERS_ATTENTION_H
#include "attention_mask.h"
SHARED_BEGIN
const uint kAttentionQuery = 0, kAttentionKey = 1, kAttentionValue = 2, kAttentionKeyLengths = 3, kAttentionStarts = 4,
           kAttentionAdditive = 5, kAttentionY = 6;
const uint kAttentionWorkgroup = 128;  // fixed: kAttentionLaneRows × 16 invocations make the tile
const uint kAttentionLaneRows = 8;
const uint kAttentionTile = 32;  // keys, depth and columns of a tile; its queries: kAttentionLaneRows · steps
// Specialization constants:
const uint kAttentionQuerySteps = 1;  // queries per invocation: 1, 2 or 4
const uint kAttentionValueTiles = 2;  // tiles that cover value_dim
const uint kAttentionMask = 3;        // bits of attention_mask.h
// attention_direct.comp has these in place of QuerySteps and ValueTiles, or of decode_attention.h's Columns and ColumnSteps:
const uint kAttentionDirectHeadDim = 1, kAttentionDirectValueDim = 2;
const uint kAttentionDirectMaxDim = 256;   // of both: they are unrolled, lavapipe compiles this for 5 seconds
const uint kAttentionDirectWorkgroup = 8;  // the lanes of lavapipe, two times those of SwiftShader
// attention_broadcast.comp has those two, and behind kAttentionMask:
const uint kAttentionBroadcastRows = 4;    // of a workgroup: up to 4, or a multiple of 4
const uint kAttentionBroadcastKeys = 32;   // of a block: a multiple of kBroadcastLanes
const uint kAttentionBroadcastDepth = 8;   // elements of a row that are taken at a time
// attention_coopmat.comp has those two, and behind kAttentionMask:
const uint kAttentionMatrixM = 4, kAttentionMatrixN = 5, kAttentionMatrixK = 6;  // sizes that the device multiplies
const uint kAttentionMatrixSubgroups = 7;  // that multiply, each M rows of a workgroup: 1, 2 or 4
const uint kAttentionMatrixTileKeys = 8;   // a multiple of N and K
const uint kAttentionMatrixMaxDim = 256;   // of both: what they fill is registers
struct AttentionPush {
    uint batch;
    uint query_len;
    uint heads;
    uint kv_heads;
    uint head_dim;
    uint value_dim;
    float scale;
    float soft_cap;  // 0: none
    AttentionMaskPush mask;
};
// Of attention_broadcast.comp with VECTORS: most of head_dim and value_dim. Where more is unrolled, compilers make no vector loads.
const uint kAttentionVectorsMaxDim = 128;
// attention_broadcast.comp: so few rows of a key head take the smaller tile: it compiles in half the time, which is more than a prompt of them takes.
const uint kAttentionFewRows = 64;
// Push constants behind it, and behind DecodeAttentionPush, of the shaders with VECTORS: addresses (64 bits).
const uint kAttentionQueryAddress = 56, kAttentionKeyAddress = 64, kAttentionValueAddress = 72;
SHARED_END
#endif
