// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_MASKED_SOFTMAX_H
#define VKFORMER_SHADERS_MASKED_SOFTMAX_H
#include "lib/attention_mask.h"
SHARED_BEGIN
const uint kMaskedSoftmaxScores = 0, kMaskedSoftmaxKeyLengths = 1, kMaskedSoftmaxStarts = 2, kMaskedSoftmaxAdditive = 3,
           kMaskedSoftmaxWeights = 4;
const uint kMaskedSoftmaxMask = 1;  // specialization constant: bits of attention_mask.h
const uint kMaskedSoftmaxKept = 2;  // specialization constant of row_vec4.comp: vectors of four that an invocation keeps
struct MaskedSoftmaxPush {
    uint batch;
    uint heads;
    uint query_len;
    AttentionMaskPush mask;
};
SHARED_END
#endif
