// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_ADD_H
#define VKFORMER_SHADERS_ADD_H
#include "lib/types.h"
SHARED_BEGIN
const uint kAddA = 0, kAddB = 1, kAddY = 2;
const uint kAddElementsPerInvocation = 4;
struct AddPush {
    uint count;   // elements
    float scale;  // of the sums
};
SHARED_END
#endif
