// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_SPLIT_QKV_H
#define VKFORMER_SHADERS_SPLIT_QKV_H
#include "lib/pages.h"
SHARED_BEGIN
const uint kSplitQkvQkv = 0, kSplitQkvTable = 1, kSplitQkvStarts = 2;
const uint kSplitQkvQuery = 3, kSplitQkvKeyCache = 4, kSplitQkvValueCache = 5;
const uint kSplitQkvQueryGain = 6, kSplitQkvKeyGain = 7, kSplitQkvPages = 8;
const uint kSplitQkvWords = 9;         // in place of Starts and Pages
const uint kSplitQkvHasStarts = 1;    // specialization constant; 0: every sequence starts at position 0
const uint kSplitQkvHasTable = 2;     // specialization constant; 0: nothing is turned, rotary_dim and positions mean nothing
const uint kSplitQkvInterleaved = 3;  // specialization constant; 1: pair k is (2k, 2k + 1), 0: (k, k + rotary_dim / 2)
const uint kSplitQkvHasNorms = 4;     // specialization constant; 0: the gains are absent, eps and gain_offset mean nothing; 2: values are normed, too
const uint kSplitQkvHasPages = 5;     // specialization constant; 0: the caches are not in pages
const uint kSplitQkvMaxHeads = 8;     // of a workgroup
struct SplitQkvPush {
    uint tokens;               // batch · len
    uint len;                  // tokens per sequence
    uint heads;                // of the query
    uint kv_heads;             // of the keys, and of the values
    uint heads_per_workgroup;  // of one token
    uint head_dim;
    uint rotary_dim;  // even; the elements behind are copied
    uint positions;   // rows of the table
    uint capacity;    // positions per sequence of the caches
    uint rows;        // of each cache: batch · capacity, or pages · kPageLen
    float eps;
    float gain_offset;
};
SHARED_END
#endif
