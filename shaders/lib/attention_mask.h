// SPDX-License-Identifier: MIT
// What all shaders with an attention mask have in common; lib/attention_mask.glsl reads it.
#ifndef VKFORMER_SHADERS_ATTENTION_MASK_H
#define VKFORMER_SHADERS_ATTENTION_MASK_H
#include "lib/types.h"
SHARED_BEGIN
// Bits of a specialization constant; an absent operand's binding is not touched.
const uint kMaskCausal = 1, kMaskWindow = 2, kMaskKeyLengths = 4, kMaskStarts = 8, kMaskAdditive = 16;
const uint kScoreSoftCap = 32;  // of the same constant: scores are capped before they are masked
const uint kKeysInPages = 64;   // of the same constant: keys and values lie in pages (lib/pages.glsl)
const uint kScoreSinks = 128;   // of the same constant: the additive mask's place has a score of each head that is no key's
struct AttentionMaskPush {
    uint key_len;
    uint window;
    uint additive_batch;  // elements of the additive mask from one batch, head, query to the next; 0: the same for all
    uint additive_head;
    uint additive_query;
};
SHARED_END
#endif
