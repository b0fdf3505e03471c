// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_IMAGE_TO_TENSOR_H
#define VKFORMER_SHADERS_IMAGE_TO_TENSOR_H
#include "lib/types.h"
SHARED_BEGIN
const uint kImageToTensorImage = 0, kImageToTensorY = 1;
struct ImageToTensorPush {
    uint channels, height, width;  // of the tensor; channels 1 or 3
    float mean_r, mean_g, mean_b;
    float scale_r, scale_g, scale_b;  // 1 / deviation
};
SHARED_END
#endif
