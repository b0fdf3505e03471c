// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_LOG_SOFTMAX_H
#define VKFORMER_SHADERS_LOG_SOFTMAX_H
#include "lib/types.h"
SHARED_BEGIN
const uint kLogSoftmaxX = 0, kLogSoftmaxY = 1;
struct LogSoftmaxPush {
    uint rows;
    uint width;  // elements per row
};
SHARED_END
#endif
