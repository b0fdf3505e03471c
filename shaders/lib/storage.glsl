// SPDX-License-Identifier: MIT
// How the elements of a float tensor are stored, so that a shader is written once for all of them:
//   (nothing)    float
//   F16          float16_t; the device has storageBuffer16BitAccess
//   F16_WORDS    two halves in a uint; for devices without 16-bit storage
//   ANY_32       32 bits of any type, for shaders that only copy
// LOAD(buffer, i) gives a VALUE, which is a float but for ANY_32; STORE(buffer, i, value) rounds. A half in a word is stored by
// two atomics, since the other half may belong to another invocation: slow, but only the devices that have no other way take
// it. (The mask: SwiftShader's packHalf2x16 lets a NaN spill into the other half.)
// A tensor that is only read is declared `readonly`; a tensor that is stored to is declared STORED (writeonly but for words).
#ifndef VKFORMER_STORAGE_GLSL
#define VKFORMER_STORAGE_GLSL

#if defined(F16)
#extension GL_EXT_shader_16bit_storage : require
#define ELEMENT float16_t
#define STORED writeonly
#define VALUE float
#define LOAD(buffer, i) float(buffer[i])
#define STORE(buffer, i, value) buffer[i] = float16_t(value)
#elif defined(F16_WORDS)
#define ELEMENT uint
#define STORED
#define VALUE float
#define LOAD(buffer, i) unpackHalf2x16(buffer[(i) >> 1])[(i) & 1u]
#define STORE(buffer, i, value)                                                              \
    {                                                                                        \
        const uint half_shift = ((i) & 1u) * 16u;                                            \
        const uint half_bits = packHalf2x16(vec2(value, 0.0)) & 0xFFFFu;                     \
        atomicAnd(buffer[(i) >> 1], ~(0xFFFFu << half_shift));                               \
        atomicOr(buffer[(i) >> 1], half_bits << half_shift);                                 \
    }
#elif defined(ANY_32)
#define ELEMENT uint
#define STORED writeonly
#define VALUE uint
#define LOAD(buffer, i) buffer[i]
#define STORE(buffer, i, value) buffer[i] = (value)
#else
#define ELEMENT float
#define VALUE float
#define STORED writeonly
#define LOAD(buffer, i) buffer[i]
#define STORE(buffer, i, value) buffer[i] = (value)
#endif

#endif
