// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_ACTIVATE_H
#define VKFORMER_SHADERS_ACTIVATE_H
#include "lib/activation.h"
SHARED_BEGIN
const uint kActivateX = 0, kActivateY = 1;
const uint kActivateActivation = 1;  // specialization constant: one of lib/activation.h
const uint kActivateElementsPerInvocation = 4;
struct ActivatePush {
    uint count;  // elements
};
SHARED_END
#endif
