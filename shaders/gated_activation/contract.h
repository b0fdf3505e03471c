// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_GATED_ACTIVATION_H
#define VKFORMER_SHADERS_GATED_ACTIVATION_H
#include "lib/activation.h"
SHARED_BEGIN
const uint kGatedActivationGate = 0, kGatedActivationUp = 1, kGatedActivationY = 2;
const uint kGatedActivationActivation = 1;  // specialization constant: one of lib/activation.h
const uint kGatedActivationElementsPerInvocation = 4;
struct GatedActivationPush {
    uint rows;       // 1 where gate and up are two tensors
    uint width;      // elements of y per row
    uint stride;     // elements of gate, and of up, from row to row
    uint up_offset;  // where up begins in its row
    float limit;     // of gates, and of up on both sides; 0: none
    float up_shift;  // added to up where there is a limit
};
SHARED_END
#endif
