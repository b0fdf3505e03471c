// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SOFTPLUS_GLSL
#define VKFORMER_SOFTPLUS_GLSL

// max(v, 0) + log(1 + e), e = exp(−|v|) ≤ 1. The logarithm is 2 artanh(e / (2 + e)), by its series up to the 15th power, which is off by
// 3e-9 at most: log() near 1 may be off by 2^-21. The shader enables GL_EXT_control_flow_attributes.
float softplus(float v) {
    const float e = exp(-abs(v)), z = e / (2.0 + e), square = z * z;
    float series = 1.0 / 15.0;
    [[unroll]] for (int k = 13; k > 0; k -= 2) series = series * square + 1.0 / float(k);
    return max(v, 0.0) + 2.0 * z * series;
}
#endif
