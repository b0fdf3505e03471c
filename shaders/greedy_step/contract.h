// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_GREEDY_STEP_H
#define VKFORMER_SHADERS_GREEDY_STEP_H
#include "lib/types.h"
SHARED_BEGIN
const uint kGreedyStepNext = 0, kGreedyStepGiven = 1, kGreedyStepLogProbs = 2, kGreedyStepTokens = 3,
           kGreedyStepStarts = 4, kGreedyStepFinished = 5, kGreedyStepHistory = 6, kGreedyStepScores = 7;
struct GreedyStepPush {
    uint rows;
    uint capacity;   // steps that the history has room for
    int eos;         // the token that finishes a row
    int pad;         // what a finished row emits
    uint positions;  // tokens per row that may be given; 0: none, the binding is not touched
    uint vocab;      // log-probabilities per row; 0: there are neither they nor scores, the bindings are not touched
};
SHARED_END
#endif
