// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_STRIDED_COPY_H
#define VKFORMER_SHADERS_STRIDED_COPY_H
#include "types.h"
SHARED_BEGIN
const uint kStridedCopyX = 0, kStridedCopyY = 1;
const uint kStridedCopyScatterConstant = 1;  // specialization constant: 0 gathers, 1 scatters
struct StridedCopyPush {
    uint count;                               // words of the dense tensor
    uint size_1, size_2, size_3;              // its sizes but the first, which nothing asks for
    uint stride_0, stride_1, stride_2, stride_3;  // words between neighbours in the strided one
};
SHARED_END
#endif
