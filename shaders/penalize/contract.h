// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_PENALIZE_H
#define VKFORMER_SHADERS_PENALIZE_H
#include "lib/types.h"
SHARED_BEGIN
const uint kPenalizeX = 0, kPenalizeCounts = 1, kPenalizeBias = 2, kPenalizeY = 3, kPenalizeSettings = 4,
           kPenalizeAllowed = 5;
// Specialization constants: 1 where the operand is present.
const uint kPenalizeHasCounts = 1, kPenalizeHasSettings = 3, kPenalizeHasAllowed = 4;
const uint kPenalizeHasBias = 2;  // 1: one for all rows, 2: one a row
const uint kPenalizeSettingsWords = 3;  // of a row: repetition, presence, frequency
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
