// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_CONCAT_H
#define VKFORMER_SHADERS_CONCAT_H
#include "lib/types.h"
SHARED_BEGIN
const uint kConcatA = 0, kConcatB = 1, kConcatY = 2;
const uint kConcatElementsPerInvocation = 4;
struct ConcatPush {
    uint count;    // elements of y
    uint a_width;  // elements of a row
    uint b_width;
};
SHARED_END
#endif
