// SPDX-License-Identifier: MIT
// Of the shaders that spread loads of 64 bits over the lanes of a subgroup, which is a workgroup: how many lanes that is.
#ifndef VKFORMER_SHADERS_WIDE_H
#define VKFORMER_SHADERS_WIDE_H
#include "lib/types.h"
SHARED_BEGIN
const uint kCpuLanes = 8;
SHARED_END
#endif
