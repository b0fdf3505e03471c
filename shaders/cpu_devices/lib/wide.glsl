// SPDX-License-Identifier: MIT
// Loads of 64 bits, for Vulkan devices that are CPUs: lavapipe takes a load whose address differs between lanes apart into a test and
// a load per lane and component, so a component should bring as much as it can. The device has shaderInt64.
// With VECTORS, words have 32 bits: where the CPU has masked gathers, lavapipe uses them, and 64-bit lanes would only take more registers;
// and what lies side by side is loaded as vectors (cpu_devices/lib/vectors.glsl).
#ifndef VKFORMER_WIDE_GLSL
#define VKFORMER_WIDE_GLSL
#include "cpu_devices/lib/lanes.h"
#ifndef VECTORS
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

uvec4 wide_words(u64vec2 pair) { return uvec4(unpackUint2x32(pair.x), unpackUint2x32(pair.y)); }
#endif

// The WORD_ELEMENTS elements of a word; components behind them mean nothing.
#if defined(VECTORS) && defined(F16)
#define WORD uint
const uint WORD_ELEMENTS = 2;
vec4 word_elements(uint word) { return unpackHalf2x16(word).xyxy; }
#elif defined(VECTORS)
#define WORD float
const uint WORD_ELEMENTS = 1;
vec4 word_elements(float word) { return vec4(word); }
#elif defined(F16)
#define WORD uint64_t
const uint WORD_ELEMENTS = 4;
vec4 word_elements(uint64_t word) {
    const uvec2 halves = unpackUint2x32(word);
    return vec4(unpackHalf2x16(halves.x), unpackHalf2x16(halves.y));
}
#else
#define WORD uint64_t
const uint WORD_ELEMENTS = 2;
vec4 word_elements(uint64_t word) { return uintBitsToFloat(unpackUint2x32(word)).xyxy; }
#endif
#endif
