// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_MASK_TIMESTAMPS_H
#define VKFORMER_SHADERS_MASK_TIMESTAMPS_H
#include "lib/types.h"
SHARED_BEGIN
const uint kMaskTimestampsX = 0, kMaskTimestampsStarts = 1, kMaskTimestampsBegins = 2, kMaskTimestampsSequences = 3,
           kMaskTimestampsY = 4;
struct MaskTimestampsPush {
    uint rows;
    uint width;     // elements per row
    uint capacity;  // tokens per row of the sequences
    uint first;     // it and all above it are times
    uint eos;
    int latest_initial;  // a row's first token is at most first + latest_initial; −1: any time
};
SHARED_END
#endif
