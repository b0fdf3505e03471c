// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_LOCAL_SOFTMAX_H
#define VKFORMER_SHADERS_LOCAL_SOFTMAX_H
#include "lib/types.h"
SHARED_BEGIN
const uint kLocalSoftmaxScores = 0, kLocalSoftmaxPositions = 1, kLocalSoftmaxRelative = 2, kLocalSoftmaxKeyLengths = 3,
           kLocalSoftmaxWeights = 4;
// Specialization constants, 0 or 1:
const uint kLocalSoftmaxIsRelative = 1, kLocalSoftmaxHasKeyLengths = 2;
struct LocalSoftmaxPush {
    uint batch;
    uint heads;
    uint query_len;
    uint key_len;
    uint half_width;  // at most 2^20
};
SHARED_END
#endif
