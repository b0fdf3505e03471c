// SPDX-License-Identifier: MIT
// Four neighbouring elements of a float tensor at a time, for tensors whose rows are multiples of 4: a buffer of ELEMENT4,
// and LOAD4(buffer, i) gives elements 4i … 4i + 3 as a vec4. Variants as in lib/storage.glsl, which is included before.
#ifndef VKFORMER_STORAGE4_GLSL
#define VKFORMER_STORAGE4_GLSL
#if defined(F16)
#define ELEMENT4 f16vec4
#define LOAD4(buffer, i) vec4(buffer[i])
#elif defined(F16_WORDS)
#define ELEMENT4 uvec2
#define LOAD4(buffer, i) vec4(unpackHalf2x16(buffer[i].x), unpackHalf2x16(buffer[i].y))
#else
#define ELEMENT4 vec4
#define LOAD4(buffer, i) buffer[i]
#endif
#endif
