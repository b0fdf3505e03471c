// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_GREEDY_STEP_H
#define VKFORMER_SHADERS_GREEDY_STEP_H
#include "types.h"
SHARED_BEGIN
const uint kGreedyStepNext = 0, kGreedyStepTokens = 1, kGreedyStepStarts = 2, kGreedyStepFinished = 3,
           kGreedyStepHistory = 4;
struct GreedyStepPush {
    uint rows;
    uint capacity;  // steps that the history has room for
    int eos;        // the token that finishes a row
    int pad;        // what a finished row emits
};
SHARED_END
#endif
