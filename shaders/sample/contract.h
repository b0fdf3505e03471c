// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_SAMPLE_H
#define VKFORMER_SHADERS_SAMPLE_H
#include "lib/types.h"
SHARED_BEGIN
const uint kSampleX = 0, kSampleRandom = 1, kSampleY = 2, kSampleSettings = 3;
const uint kSampleHasSettings = 1;  // specialization constant: 1 where each row has its own
const uint kSampleSettingsWords = 4;  // of a row: temperature, top_k, top_p, min_p
const uint kSampleRandomWords = 3;  // per row: seed (low, high), draws so far
struct SamplePush {
    uint rows;
    uint width;                 // elements per row
    float inverse_temperature;  // 0: the first of arg_max
    uint top_k;                 // 0: all
    uint top_p;                 // in units of 2^-32; 0: all
    float lowest;               // log(min_p), −∞ for all
};
SHARED_END
#endif
