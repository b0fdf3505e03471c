// SPDX-License-Identifier: MIT
// Philox4x32-10 (Salmon et al. 2011): four words of randomness that are a function of a counter and a key, and of nothing
// else: no state to carry along, and the CPU twin (runtime/cpu/philox.hpp) gives the same bits.
#ifndef VKFORMER_PHILOX_GLSL
#define VKFORMER_PHILOX_GLSL

uvec4 philox(uvec4 counter, uvec2 key) {
    for (uint round = 0; round < 10; ++round) {
        uint high0, low0, high1, low1;
        umulExtended(0xD2511F53u, counter.x, high0, low0);
        umulExtended(0xCD9E8D57u, counter.z, high1, low1);
        counter = uvec4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
        key += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return counter;
}

// −log(1 − v) for v = (word + 1/2) / 2^32, an exponentially distributed number. Where v is small, which is what wins races, a
// series takes the place of log(), of which Vulkan promises 2^-21 absolute near 1 and no more; off by 1e-8 relative at its end.
float exponential_number(uint word) {
    const float v = min(float(word) * 2.3283064e-10 + 1.1641532e-10, 0.99999994);
    if (v < 0.125)
        return v * (1.0 + v * (0.5 + v * (0.33333333 + v * (0.25 + v * (0.2 + v * (0.16666667 + v * (0.14285714 + v * 0.125)))))));
    return -log(1.0 - v);
}

#endif
