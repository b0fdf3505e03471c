// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_BEAM_STEP_H
#define VKFORMER_SHADERS_BEAM_STEP_H
#include "lib/types.h"
SHARED_BEGIN
const uint kBeamStepCandidateScores = 0, kBeamStepCandidateTokens = 1, kBeamStepTokens = 2, kBeamStepStarts = 3,
           kBeamStepParents = 4, kBeamStepRunningScores = 5, kBeamStepTokenHistory = 6, kBeamStepParentHistory = 7,
           kBeamStepFinalScores = 8, kBeamStepFinalSteps = 9, kBeamStepFinalRows = 10, kBeamStepFinalTokens = 11,
           kBeamStepState = 12,
           kBeamStepContinuations = 13;  // of a step in two dispatches: [rows, continuations per beam]
const uint kBeamStepMaxBeams = 32;
// Specialization constants: the workgroup's size once more, the beams, and the continuations that are looked at per beam, 1 + tokens
// that end: they size the lists in shared memory, of which an invocation has per beam kBeamStepBeamBytes and for each
// continuation kBeamStepContinuationBytes.
const uint kBeamStepSequences = 1, kBeamStepBeams = 2, kBeamStepKept = 3;
const uint kBeamStepBeamBytes = 28, kBeamStepContinuationBytes = 16;
// The values of graph::EarlyStopping (kernels/beam_step.cpp checks that they are).
const uint kBeamStepHeuristic = 0, kBeamStepAlways = 1, kBeamStepNever = 2;
struct BeamStepPush {
    uint batch;
    uint beams;      // rows per sequence
    uint k;          // candidates per row, in falling order
    uint max_steps;  // of the limit in `state`
    int eos;
    float length_penalty;
    uint early_stopping;
};
SHARED_END
#endif
