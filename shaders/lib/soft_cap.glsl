// SPDX-License-Identifier: MIT
// cap · tanh(x / cap): x, bounded smoothly by ±cap (Gemma Team 2024, arXiv 2408.00118, section 2).
#ifndef VKFORMER_SOFT_CAP_GLSL
#define VKFORMER_SOFT_CAP_GLSL
#include "lib/activation.glsl"

float soft_capped(float x, float cap) { return cap * hyperbolic_tangent(x / cap); }
#endif
