// SPDX-License-Identifier: MIT
// Loads of 64 bits, for Vulkan devices that are CPUs: lavapipe takes a load whose address differs between lanes apart into a test and
// a load per lane and component, so a component should bring as much as it can. The device has shaderInt64.
#ifndef VKFORMER_WIDE_GLSL
#define VKFORMER_WIDE_GLSL
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "interface/wide.h"

uvec4 wide_words(u64vec2 pair) { return uvec4(unpackUint2x32(pair.x), unpackUint2x32(pair.y)); }

// The elements of a word, four halves or two floats; of the latter the last two components mean nothing.
#ifdef F16
const uint WORD_ELEMENTS = 4;
vec4 word_elements(uint64_t word) {
    const uvec2 halves = unpackUint2x32(word);
    return vec4(unpackHalf2x16(halves.x), unpackHalf2x16(halves.y));
}
#else
const uint WORD_ELEMENTS = 2;
vec4 word_elements(uint64_t word) { return uintBitsToFloat(unpackUint2x32(word)).xyxy; }
#endif
#endif
