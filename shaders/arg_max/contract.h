// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_ARG_MAX_H
#define VKFORMER_SHADERS_ARG_MAX_H
#include "lib/types.h"
SHARED_BEGIN
const uint kArgMaxX = 0, kArgMaxY = 1;
struct ArgMaxPush {
    uint rows;
    uint width;  // elements per row
};
SHARED_END
#endif
