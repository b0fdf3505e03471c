// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_GATED_ACTIVATION_H
#define VKFORMER_SHADERS_GATED_ACTIVATION_H
#include "activation.h"
SHARED_BEGIN
const uint kGatedActivationGate = 0, kGatedActivationUp = 1, kGatedActivationY = 2;
const uint kGatedActivationActivation = 1;  // specialization constant: one of interface/activation.h
const uint kGatedActivationElementsPerInvocation = 4;
// gated_activation_vectors.comp: words of 32 bits of a workgroup, and those that are taken at a time
const uint kGatedActivationChunkWords = 512, kGatedActivationStepWords = 32;
struct GatedActivationPush {
    uint rows;       // 1 where gate and up are two tensors
    uint width;      // elements of y per row
    uint stride;     // elements of gate, and of up, from row to row
    uint up_offset;  // where up begins in its row
};
// Push constants behind it, of that shader: the addresses (64 bits) of the tensors.
const uint kGatedActivationGateAddress = 16, kGatedActivationUpAddress = 24;
SHARED_END
#endif
