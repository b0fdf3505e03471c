// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_STRIDED_COPY_H
#define VKFORMER_SHADERS_STRIDED_COPY_H
#include "lib/types.h"
SHARED_BEGIN
const uint kStridedCopyX = 0, kStridedCopyY = 1;
struct StridedCopyPush {
    uint count;                   // words to copy: a block of four dimensions
    uint size_1, size_2, size_3;  // its sizes but the first, which nothing asks for
    // where it begins in x and in y, and the words between neighbours there
    uint x_first, x_stride_0, x_stride_1, x_stride_2, x_stride_3;
    uint y_first, y_stride_0, y_stride_1, y_stride_2, y_stride_3;
};
SHARED_END
#endif
