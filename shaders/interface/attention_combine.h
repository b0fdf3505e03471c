// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_ATTENTION_COMBINE_H
#define VKFORMER_SHADERS_ATTENTION_COMBINE_H
#include "decode_attention.h"
SHARED_BEGIN
const uint kAttentionCombinePartial = 0, kAttentionCombineY = 1;
struct AttentionCombinePush {
    uint rows;  // batch · heads
    uint splits;
    uint value_dim;
};
SHARED_END
#endif
