// SPDX-License-Identifier: MIT
#ifndef VKFORMER_NUMBERS_GLSL
#define VKFORMER_NUMBERS_GLSL
#define MINUS_INFINITY uintBitsToFloat(0xFF800000u)
#define NOT_A_NUMBER uintBitsToFloat(0x7FC00000u)

// NaN wins, so that it stays visible.
float max_keeping_nan(float a, float b) { return isnan(a) || a > b ? a : b; }

// sum + a · b, in steps that a compiler may not take apart: dot() may be a product and three sums that are not fused.
float add_product(vec4 a, vec4 b, float sum) { return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum)))); }
#endif
