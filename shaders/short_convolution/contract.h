// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_SHORT_CONVOLUTION_H
#define VKFORMER_SHADERS_SHORT_CONVOLUTION_H
#include "lib/activation.h"
#include "lib/state_place.h"
SHARED_BEGIN
const uint kShortConvolutionX = 0, kShortConvolutionWeight = 1, kShortConvolutionBias = 2, kShortConvolutionStarts = 3,
           kShortConvolutionCounts = 4, kShortConvolutionSlots = 5, kShortConvolutionState = 6,
           kShortConvolutionY = 7;
// Specialization constants.
const uint kShortConvolutionTaps = 1, kShortConvolutionHasBias = 2, kShortConvolutionIsGated = 3,
           kShortConvolutionActivation = 4;
const uint kShortConvolutionPlace = 5;   // kPlaceHas… bits
const uint kShortConvolutionTokens = 6;  // tokens that an invocation computes
const uint kShortConvolutionKeeps = 7;   // 1: then it writes the state; it has all tokens of its channel, or none
struct ShortConvolutionPush {
    uint count;  // invocations: batch · tiles · width
    uint width;
    uint tiles;  // of the tokens of a sequence
    uint len;
    uint slots;  // rows of the state
};
SHARED_END
#endif
