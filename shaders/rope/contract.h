// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_ROPE_H
#define VKFORMER_SHADERS_ROPE_H
#include "lib/types.h"
SHARED_BEGIN
const uint kRopeX = 0, kRopeTable = 1, kRopeStarts = 2, kRopeY = 3;
const uint kRopeHasStarts = 1;    // specialization constant; 0: every sequence starts at position 0
const uint kRopeInterleaved = 2;  // specialization constant; 1: pair k is (2k, 2k + 1), 0: (k, k + rotary_dim / 2)
struct RopePush {
    uint tokens;               // batch · len
    uint len;                  // tokens per sequence
    uint heads;                // per token
    uint heads_per_workgroup;  // of one token
    uint head_dim;
    uint rotary_dim;  // even; the elements behind are copied
    uint positions;   // rows of the table
};
SHARED_END
#endif
