// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_DECODE_ATTENTION_H
#define VKFORMER_SHADERS_DECODE_ATTENTION_H
#include "lib/attention_mask.h"
#include "lib/pages.h"
SHARED_BEGIN
const uint kDecodeAttentionQuery = 0, kDecodeAttentionKey = 1, kDecodeAttentionValue = 2,
           kDecodeAttentionWords = 3, kDecodeAttentionAdditive = 5,  // Words: decode_attention/words.glsl
           kDecodeAttentionPartial = 6, kDecodeAttentionY = 7, kDecodeAttentionPages = 8;
const uint kDecodeAttentionMaxWorkgroup = 128;  // a tile has as many keys as the workgroup has invocations
const uint kDecodeAttentionMaxHeadDim = 576;
const uint kLeastSplitKeys = 32;  // of a split that has any
// Specialization constants:
const uint kDecodeAttentionColumns = 1;      // invocations that share a key in the sum of values: a power of two
const uint kDecodeAttentionColumnSteps = 2;  // value columns per invocation: Columns · ColumnSteps ≥ value_dim
const uint kDecodeAttentionMask = 3;         // bits of attention_mask.h
// decode_attention/split_vec4.comp and split_subgroup.comp:
const uint kDecodeAttentionHeads = 4;  // that a workgroup owns, of those that share a key head
// split_vec4.comp, whose columns are pieces of 16 bytes:
const uint kDecodeAttentionHeadPieces = 8;  // of a query
const uint kDecodeAttentionRoom = 9;  // heads · elements of a piece beside whose sums eight loads wait in registers; beside more, four
const uint kDecodeAttentionNoRoom = 0, kDecodeAttentionSomeRoom = 16, kDecodeAttentionMuchRoom = 32;
const uint kDecodeAttentionVec4MaxHeads = 4;
// split_subgroup.comp has these in place of Columns and ColumnSteps:
const uint kDecodeAttentionHeadSteps = 5;  // pairs of a query per invocation: subgroup size · steps ≥ head_dim / 2
const uint kDecodeAttentionValueSteps = 6;
const uint kDecodeAttentionSums = 7;  // floats of shared memory: value_dim for each subgroup that there may be
const uint kDecodeAttentionMaxHeads = 8, kDecodeAttentionMaxSubgroups = 32;
// What a split leaves: value_dim sums of exp(s − maximum) · value, then the maximum of its scores s, then the sum of exp(s − maximum).
// A row of `partial` has those of all splits of a head and one more word, the number of splits that are done.
const uint kPartialMaximum = 0, kPartialSum = 1, kPartialExtra = 2;  // offsets after the sums, and how many
struct DecodeAttentionPush {
    uint batch;
    uint heads;
    uint kv_heads;
    uint head_dim;
    uint value_dim;
    uint kv_rows;  // rows of keys and of values: batch · key_len, or pages · kPageLen
    uint splits;
    float scale;
    float soft_cap;  // 0: none
    AttentionMaskPush mask;
};
SHARED_END
#endif
