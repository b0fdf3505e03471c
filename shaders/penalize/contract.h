// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_PENALIZE_H
#define VKFORMER_SHADERS_PENALIZE_H
#include "lib/types.h"
SHARED_BEGIN
const uint kPenalizeX = 0, kPenalizeCounts = 1, kPenalizeBias = 2, kPenalizeY = 3;
const uint kPenalizeHasCounts = 1, kPenalizeHasBias = 2;  // specialization constants: 1 where the operand is present
const uint kPenalizeElementsPerInvocation = 4;
struct PenalizePush {
    uint count;  // elements of x
    uint vocab;  // elements per row
    float repetition;
    float presence;
    float frequency;
};
SHARED_END
#endif
