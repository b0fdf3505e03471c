// SPDX-License-Identifier: MIT
// How keys and values are stored: as the other float tensors (lib/storage.glsl and lib/storage4.glsl, included before), or with Q8_CACHE in
// blocks of 32 neighbours of a head, x = d · q, d a half, q an integer of 8 bits: GGUF's q8_0. There, all integers of the tensor come
// first, four to a word, then all halves, two to a word (runtime/vulkan/block_layout.hpp, as weights do): a block of 34 bytes in one
// piece would leave most loads of words across two of them.
// KV_LOAD(buffer, i, blocks) gives element i, KV_LOAD4(buffer, i, blocks) elements 4i … 4i + 3, of a buffer of KV_ELEMENT or
// KV_ELEMENT4; `blocks` is how many the whole tensor has.
#ifndef VKFORMER_KV_CACHE_GLSL
#define VKFORMER_KV_CACHE_GLSL
#ifdef Q8_CACHE
#define KV_ELEMENT uint
#define KV_ELEMENT4 uint
#define KV_SCALE(buffer, block, blocks) unpackHalf2x16(buffer[(blocks) * 8 + (block) / 2] >> (16 * ((block) & 1u))).x
// Bytes as numbers with a sign.
float kv_byte(uint word, uint at) { return float(bitfieldExtract(int(word), int(8 * at), 8)); }
vec4 kv_bytes(uint word) { return vec4(kv_byte(word, 0), kv_byte(word, 1), kv_byte(word, 2), float(int(word) >> 24)); }
#define KV_LOAD(buffer, i, blocks) (KV_SCALE(buffer, (i) / 32, blocks) * kv_byte(buffer[(i) / 4], (i) & 3u))
#define KV_LOAD4(buffer, i, blocks) (KV_SCALE(buffer, (i) / 8, blocks) * kv_bytes(buffer[i]))
#else
#define KV_ELEMENT ELEMENT
#define KV_ELEMENT4 ELEMENT4
#define KV_LOAD(buffer, i, blocks) LOAD(buffer, i)
#define KV_LOAD4(buffer, i, blocks) LOAD4(buffer, i)
#endif
#endif
