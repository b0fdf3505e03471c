// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_ACTIVATION_H
#define VKFORMER_SHADERS_ACTIVATION_H
#include "lib/types.h"
SHARED_BEGIN
// The values of graph::Activation (kernels/activate.cpp checks that they are).
const uint kActivationNone = 0, kActivationRelu = 1, kActivationGeluErf = 2, kActivationGeluTanh = 3,
           kActivationSilu = 4, kActivationTanh = 5, kActivationSigmoid = 6, kActivationGeluQuick = 7,
           kActivationReluSquared = 8;
SHARED_END
#endif
