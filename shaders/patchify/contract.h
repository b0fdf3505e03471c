// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_PATCHIFY_H
#define VKFORMER_SHADERS_PATCHIFY_H
#include "lib/types.h"
SHARED_BEGIN
const uint kPatchifyPixels = 0, kPatchifyY = 1;
const uint kPatchifyElementsPerInvocation = 4;
struct PatchifyPush {
    uint count;  // elements of y
    uint channels, height, width;
    uint patch_height, patch_width;
    uint columns;  // patches side by side
    uint rows;     // of y for one image: the prefix, then the patches
    uint prefix;   // rows of zeros
};
SHARED_END
#endif
