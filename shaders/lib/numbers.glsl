// SPDX-License-Identifier: MIT
#ifndef VKFORMER_NUMBERS_GLSL
#define VKFORMER_NUMBERS_GLSL
#define MINUS_INFINITY uintBitsToFloat(0xFF800000u)
#define NOT_A_NUMBER uintBitsToFloat(0x7FC00000u)

// NaN wins, so that it stays visible.
float max_keeping_nan(float a, float b) { return isnan(a) || a > b ? a : b; }
#endif
