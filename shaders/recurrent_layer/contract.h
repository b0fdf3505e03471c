// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_RECURRENT_LAYER_H
#define VKFORMER_SHADERS_RECURRENT_LAYER_H
#include "lib/recurrent_unit.h"
SHARED_BEGIN
const uint kRecurrentLayerGates = 0, kRecurrentLayerWeight = 1, kRecurrentLayerBias = 2,
           kRecurrentLayerInitialHidden = 3, kRecurrentLayerWords = 4, kRecurrentLayerY = 5,
           kRecurrentLayerHidden = 6, kRecurrentLayerCell = 7;
// Specialization constants: the unit (recurrent_unit.h), hidden_dim, sequences per workgroup, and which of the optional
// operands are there (the sum of kRecurrentLayerHas…).
const uint kRecurrentLayerUnit = 1, kRecurrentLayerHiddenDim = 2, kRecurrentLayerRows = 3, kRecurrentLayerOperands = 4;
const uint kRecurrentLayerHasBias = 1, kRecurrentLayerHasHidden = 2, kRecurrentLayerHasCell = 4,
           kRecurrentLayerHasLengths = 8;
const uint kRecurrentLayerMaxRows = 4;
const uint kRecurrentLayerSharedFloats = 4096;  // 16 KiB; 3 · rows · hidden_dim of them are used
struct RecurrentLayerPush {
    uint batch;
    uint len;
    uint directions;
    uint backward;  // bit d: direction d goes from the last step to the first
};
SHARED_END
#endif
