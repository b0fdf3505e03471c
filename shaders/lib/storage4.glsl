// SPDX-License-Identifier: MIT
// Four neighbouring elements of a float tensor at a time, for tensors whose rows are multiples of 4: a buffer of ELEMENT4,
// LOAD4(buffer, i) gives elements 4i … 4i + 3 as a vec4, FLOATS4(stored) makes one of an ELEMENT4, STORE4(buffer, i, value) rounds
// them. Variants as in lib/storage.glsl, which is included before; four halves are two whole words, so no atomics are needed to store
// them.
#ifndef VKFORMER_STORAGE4_GLSL
#define VKFORMER_STORAGE4_GLSL
// LOAD_WORDS: halves are words even where the device has 16-bit storage, for shaders that keep them in registers, which may not be of 16 bits,
// and for devices that are CPUs. WIDE: words of 64 bits (cpu_devices/lib/wide.glsl), not with F16_WORDS.
#if defined(WIDE)
#include "cpu_devices/lib/wide.glsl"
#ifdef F16
#define ELEMENT4 uint64_t
#define FLOATS4(stored) word_elements(stored)
#include "lib/halves.glsl"
#define STORE4(buffer, i, value) buffer[i] = packUint2x32(uvec2(rounded_halves((value).xy), rounded_halves((value).zw)))
#else
#define ELEMENT4 u64vec2
#define FLOATS4(stored) uintBitsToFloat(wide_words(stored))
u64vec2 pair_of(uvec4 words) { return u64vec2(packUint2x32(words.xy), packUint2x32(words.zw)); }
#define STORE4(buffer, i, value) buffer[i] = pair_of(floatBitsToUint(value))
#endif
#elif defined(F16) && !defined(LOAD_WORDS)
#define ELEMENT4 f16vec4
#define FLOATS4(stored) vec4(stored)
#define STORE4(buffer, i, value) buffer[i] = f16vec4(value)
#elif defined(F16) || defined(F16_WORDS)
#define ELEMENT4 uvec2
#define FLOATS4(stored) vec4(unpackHalf2x16((stored).x), unpackHalf2x16((stored).y))
#ifdef LOAD_WORDS
#include "lib/halves.glsl"
#define STORE4(buffer, i, value) buffer[i] = uvec2(rounded_halves((value).xy), rounded_halves((value).zw))
#else
// each by itself: SwiftShader's packHalf2x16 lets a NaN spill into the other half
uint half_bits(float value) { return packHalf2x16(vec2(value, 0.0)) & 0xFFFFu; }
uvec2 four_halves(vec4 value) {
    return uvec2(half_bits(value.x) | half_bits(value.y) << 16, half_bits(value.z) | half_bits(value.w) << 16);
}
#define STORE4(buffer, i, value) buffer[i] = four_halves(value)
#endif
#else
#define ELEMENT4 vec4
#define FLOATS4(stored) (stored)
#define STORE4(buffer, i, value) buffer[i] = (value)
#endif
#define LOAD4(buffer, i) FLOATS4(buffer[i])
#endif
