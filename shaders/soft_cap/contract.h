// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_SOFT_CAP_H
#define VKFORMER_SHADERS_SOFT_CAP_H
#include "lib/types.h"
SHARED_BEGIN
const uint kSoftCapX = 0, kSoftCapY = 1;
const uint kSoftCapElementsPerInvocation = 4;
struct SoftCapPush {
    uint count;  // elements
    float cap;
};
SHARED_END
#endif
