// SPDX-License-Identifier: MIT
// How many lanes a subgroup has, which is a workgroup, where a shader spreads loads of 64 bits over them.
#ifndef VKFORMER_SHADERS_CPU_DEVICES_LANES_H
#define VKFORMER_SHADERS_CPU_DEVICES_LANES_H
#include "lib/types.h"
SHARED_BEGIN
const uint kCpuLanes = 8;
SHARED_END
#endif
