// SPDX-License-Identifier: MIT
// What vectors.comp adds to gated_activation/contract.h.
#ifndef VKFORMER_SHADERS_CPU_GATED_ACTIVATION_H
#define VKFORMER_SHADERS_CPU_GATED_ACTIVATION_H
#include "cpu_devices/lib/lanes.h"
#include "gated_activation/contract.h"
SHARED_BEGIN
// Words of 32 bits of a workgroup, and those that are taken at a time.
const uint kCpuGatedActivationChunkWords = 512, kCpuGatedActivationStepWords = 32;
// Push constants behind PART_OF_GRID and GatedActivationPush: the addresses (64 bits) of the tensors.
const uint kCpuGatedActivationGateAddress = 32, kCpuGatedActivationUpAddress = 40;
SHARED_END
#endif
