// SPDX-License-Identifier: MIT
// Weights in GGUF's block formats, bfloat16 and float16, sixteen neighbouring elements at a time:
//     weight = scale · q + offset,  q an integer of at most 8 bits  (bfloat16, float16: q is the weight, scale 1, offset 0)
// What a block holds: runtime/core/block_format.hpp; how it lies in memory: runtime/vulkan/block_layout.hpp. Declare
// WEIGHT_BINDING before the inclusion, and WEIGHT_FORMAT, the number of the specialization constant that is the format: the branches
// on it are gone when the pipeline is made.
// With BIASED_Q8 the integers of q8_0, iq4_nl and iq4_xs are 128 more, and their offset is −128 · scale: bytes without a sign become floats in one
// instruction on RDNA 3 and NVIDIA, those with a sign in two. (Estimated cycles of a row: Navi31 −17 %, Ampere −21 %, Apple M1 −62 %; but
// AMD before RDNA 3, whose instructions take bytes with a sign as well, +17 %.)
// With WIDE the vectors are loaded as pairs of 64 bits (cpu_devices/lib/wide.glsl).
// A chunk is as many sixteens as share what is loaded: of a chunk's 16-byte vectors every bit is used for it. Loops over the
// sixteens of a chunk that are unrolled load each vector once.
#ifndef VKFORMER_DEQUANTIZE_GLSL
#define VKFORMER_DEQUANTIZE_GLSL
#include "lib/weight_format.h"

layout(constant_id = WEIGHT_FORMAT) const uint FORMAT = kWeightQ8_0;
#ifdef WIDE
#include "cpu_devices/lib/wide.glsl"
layout(std430, binding = WEIGHT_BINDING) readonly buffer WeightVectors { u64vec2 weight_vectors[]; };
uvec4 weight_vector(uint i) { return wide_words(weight_vectors[i]); }
#else
layout(std430, binding = WEIGHT_BINDING) readonly buffer WeightVectors { uvec4 weight_vectors[]; };
uvec4 weight_vector(uint i) { return weight_vectors[i]; }
#endif
#ifdef EIGHTS
layout(std430, binding = WEIGHT_BINDING) readonly buffer WeightPairs { uvec2 weight_pairs[]; };
#endif
layout(std430, binding = WEIGHT_BINDING) readonly buffer WeightWords { uint weight_words[]; };

const bool IS_Q8 = FORMAT == kWeightQ8_0, IS_BF16 = FORMAT == kWeightBf16;
const bool IS_16_BITS = IS_BF16 || FORMAT == kWeightF16;
const bool IS_Q4K = FORMAT == kWeightQ4K, IS_Q5K = FORMAT == kWeightQ5K, IS_Q6K = FORMAT == kWeightQ6K;
const bool IS_IQ4XS = FORMAT == kWeightIq4Xs, IS_Q2K = FORMAT == kWeightQ2K, IS_Q3K = FORMAT == kWeightQ3K;
// of 32 elements, a nibble each: NibbleFormat of runtime/core/block_format.hpp
const bool HAS_MINIMUM = FORMAT == kWeightQ4_1 || FORMAT == kWeightQ5_1;
const bool HAS_FIFTH_BITS = FORMAT == kWeightQ5_0 || FORMAT == kWeightQ5_1;
const bool HAS_EXPONENT = FORMAT == kWeightMxfp4;
const bool IS_NIBBLES = FORMAT == kWeightQ4_0 || HAS_MINIMUM || HAS_FIFTH_BITS || FORMAT == kWeightIq4Nl || HAS_EXPONENT;
const bool HAS_TABLE = FORMAT == kWeightIq4Nl || IS_IQ4XS || HAS_EXPONENT;
const bool HAS_SIGNS = IS_Q8 || FORMAT == kWeightIq4Nl || IS_IQ4XS;
#ifdef BIASED_Q8
const bool IS_SIGNED = false;
#else
const bool IS_SIGNED = HAS_SIGNS;
#endif
const bool HAS_OFFSET = !IS_16_BITS && !IS_SIGNED;
const uint BLOCK_ELEMENTS = IS_Q4K || IS_Q5K || IS_Q6K || IS_IQ4XS || IS_Q2K || IS_Q3K ? 256 : 32;
const uint BLOCK_VECTORS = IS_NIBBLES ? 1 : IS_Q8 ? 2 : IS_Q2K ? 5 : IS_Q3K ? 6 : IS_IQ4XS ? 8 : IS_Q4K ? 9 : IS_Q5K ? 11 : IS_Q6K ? 13 : 4;
// Halves of a block that are in no vector. Of mxfp4 it is a byte, which rest_word and scale16 look at themselves.
const uint BLOCK_REST = IS_NIBBLES ? 1 + (HAS_MINIMUM ? 1 : 0) + (HAS_FIFTH_BITS ? 2 : 0) : IS_Q2K ? 2 : IS_Q3K ? 7 : IS_IQ4XS ? 4 : 1;
const uint CHUNK_ELEMENTS = IS_Q4K || IS_Q5K ? 64 : IS_Q6K || IS_Q2K || IS_Q3K ? 128 : 32;
const uint BLOCK_CHUNKS = BLOCK_ELEMENTS / CHUNK_ELEMENTS;
const uint CHUNK_SIXTEENS = CHUNK_ELEMENTS / 16;

vec4 bytes_to_floats(uint packed) {
    if (IS_SIGNED) {
        const int word = int(packed);
        return vec4(bitfieldExtract(word, 0, 8), bitfieldExtract(word, 8, 8), bitfieldExtract(word, 16, 8), word >> 24);
    }
    return vec4(packed & 0xFFu, (packed >> 8) & 0xFFu, (packed >> 16) & 0xFFu, packed >> 24);
}

uvec4 mux(uvec4 mask, uvec4 if_clear, uvec4 if_set) { return if_clear ^ (mask & (if_clear ^ if_set)); }

// Two neighbours of a table, by the lowest bit of an index.
uvec4 table_pair(uvec4 mask, int even, int odd) {
    return uvec4((even & 0xFF) * 0x01010101) ^ (mask & uvec4(((even ^ odd) & 0xFF) * 0x01010101));
}

// Eight of them, by three bits.
uvec4 table_eight(uvec4 bit0, uvec4 bit1, uvec4 bit2, ivec4 first, ivec4 last) {
    return mux(bit2, mux(bit1, table_pair(bit0, first.x, first.y), table_pair(bit0, first.z, first.w)),
               mux(bit1, table_pair(bit0, last.x, last.y), table_pair(bit0, last.z, last.w)));
}

// The numbers that nibbles stand for (kIq4Values and kMxfp4Values of runtime/core/block_format.hpp), signed bytes of the former; a nibble to a
// byte. They are chosen bit by bit, for four bytes of a word at a time: an array that every invocation reads elsewhere would lie in memory.
uvec4 table_bytes(uvec4 nibbles) {
    const uvec4 bit0 = (nibbles & 0x01010101u) * 255, bit1 = (nibbles >> 1 & 0x01010101u) * 255;
    const uvec4 bit2 = (nibbles >> 2 & 0x01010101u) * 255, bit3 = (nibbles >> 3 & 0x01010101u) * 255;
    if (HAS_EXPONENT)
        return mux(bit3, table_eight(bit0, bit1, bit2, ivec4(12, 13, 14, 15), ivec4(16, 18, 20, 24)),
                   table_eight(bit0, bit1, bit2, ivec4(12, 11, 10, 9), ivec4(8, 6, 4, 0)));
    return mux(bit3, table_eight(bit0, bit1, bit2, ivec4(-127, -104, -83, -65), ivec4(-49, -35, -22, -10)),
               table_eight(bit0, bit1, bit2, ivec4(1, 13, 25, 38), ivec4(53, 69, 89, 113)));
}

// Sixteen bits, of element i bit i, as the fifth bits of bytes.
uvec4 fifth_bits(uint bits) {
    // four bits, times ones that are 7 places apart: a bit to each byte
    return (((uvec4(bits) >> uvec4(0, 4, 8, 12)) & 15u) * 0x00204081u & 0x01010101u) << 4;
}

// Where sixteen elements lie: sixteen `i` of chunk `chunk` of a block. With EIGHTS only the first or last eight of them, by `part`; else that is 0.
struct Place {
    uint block, chunk, i, part;
};

// Sixteen `sixteen` of a row that begins with block `first_block`.
Place place_of(uint first_block, uint sixteen, uint part) {
    const uint chunks = sixteen / CHUNK_SIXTEENS;
    return Place(first_block + chunks / BLOCK_CHUNKS, chunks % BLOCK_CHUNKS, sixteen % CHUNK_SIXTEENS, part);
}

// Elements as they lie in memory: vectors, and what their scale and offset are made of. Loading is apart from decoding, without a branch and
// without arithmetic on what is loaded, so that a shader has many loads on their way at the same time.
struct Stored16 {
    uvec4 low, high, scales;
};

uvec4 stored_vector(uint vector, uint part) {
#ifdef EIGHTS
    return uvec4(weight_pairs[2 * vector + part], 0, 0);
#else
    return weight_vector(vector);
#endif
}

// The words that hold the halves of a block which lie behind all vectors, BLOCK_REST of them, from word `i` of them on. `blocks` is the number
// of blocks of the tensor.
uint rest_word(uint block, uint i, uint blocks) {
    return weight_words[blocks * BLOCK_VECTORS * 4 + (HAS_EXPONENT ? block / 4 : block * BLOCK_REST / 2) + i];
}

// Whether the first of these halves is the upper one of its word.
bool is_rest_shifted(uint block) { return (BLOCK_REST & block & 1u) != 0; }

// 2^(e − 128), the least two of which are no normal numbers.
float power_of(uint exponent) { return uintBitsToFloat(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23); }

uint word_of_rest(uint word, uint following, uint block) { return is_rest_shifted(block) ? word >> 16 | following << 16 : word; }
float half_of_rest(uint word, uint block) { return unpackHalf2x16(word >> (16 * (BLOCK_REST & block & 1u))).x; }

Stored16 load16(Place at, uint blocks) {
    const uint block = at.block, chunk = at.chunk, i = at.i, part = at.part;
    const uint base = block * BLOCK_VECTORS, half_group = i & 1u, group = i / 2;  // of the chunk; groups have 32 elements
    Stored16 s = Stored16(uvec4(0), uvec4(0), uvec4(0));
    if (IS_16_BITS) {
#ifdef EIGHTS
        s.low = weight_vector(base + 2 * i + part);
#else
        s.low = weight_vector(base + 2 * i);
        s.high = weight_vector(base + 2 * i + 1);
#endif
    } else if (IS_Q8) {
        s.low = stored_vector(base + i, part);
        s.scales.x = rest_word(block, 0, blocks);
    } else if (IS_NIBBLES || IS_IQ4XS) {
        s.low = stored_vector(base + chunk, part);
        s.scales.x = rest_word(block, 0, blocks);
        if (IS_IQ4XS || HAS_FIFTH_BITS) s.scales.y = rest_word(block, 1, blocks);
    } else if (IS_Q2K) {
        s.low = stored_vector(base + 1 + 2 * chunk + half_group, part);
        s.scales.x = rest_word(block, 0, blocks);
        s.scales.y = weight_words[base * 4 + 2 * chunk + i / 4];
    } else if (IS_Q3K) {
        s.low = stored_vector(base + 2 + 2 * chunk + half_group, part);
        s.high = stored_vector(base + half_group, part);
        s.scales = uvec4(rest_word(block, i / 4, blocks), rest_word(block, i / 4 + 1, blocks), rest_word(block, 2, blocks),
                         rest_word(block, 3, blocks));
    } else if (IS_Q4K || IS_Q5K) {
        s.low = stored_vector(base + (IS_Q4K ? 1 : 3) + 2 * chunk + half_group, part);
        if (IS_Q5K) s.high = stored_vector(base + 1 + half_group, part);
        s.scales = weight_vector(base);
    } else {
        s.low = stored_vector(base + 4 * chunk + 2 * (group & 1u) + half_group, part);
        s.high = stored_vector(base + 8 + 2 * chunk + half_group, part);
        s.scales.x = rest_word(block, 0, blocks);
        s.scales.y = weight_words[(base + 12) * 4 + 2 * chunk + i / 4];
    }
    return s;
}

// q of what load16 gave for `at`, four to a word, in the order of the elements. Not for those of 16 bits.
uvec4 quants16(Stored16 s, Place at) {
    const uint chunk = at.chunk, i = at.i, group = i / 2;
    if (IS_Q8) return s.low;
    if (IS_NIBBLES || IS_IQ4XS) {
        const uvec4 nibbles = (s.low >> (4 * i)) & 0x0F0F0F0Fu;
        if (HAS_TABLE) return table_bytes(nibbles);
        if (!HAS_FIFTH_BITS) return nibbles;
        // halves 2 and 3 of q5_1's rest, 1 and 2 of q5_0's
        const uint bits = HAS_MINIMUM || is_rest_shifted(at.block) ? s.scales.y : s.scales.x >> 16 | s.scales.y << 16;
        return nibbles | fifth_bits(bits >> (16 * i + 8 * at.part));
    }
    if (IS_Q2K) return (s.low >> (2 * group)) & 0x03030303u;
    if (IS_Q3K) return ((s.low >> (2 * group)) & 0x03030303u) | ((s.high >> (4 * chunk + group)) & 0x01010101u) << 2;
    if (IS_Q4K) return (s.low >> (4 * group)) & 0x0F0F0F0Fu;
    if (IS_Q5K) return ((s.low >> (4 * group)) & 0x0F0F0F0Fu) | ((s.high >> (2 * chunk + group)) & 0x01010101u) << 4;
    return ((s.low >> (4 * (group / 2))) & 0x0F0F0F0Fu) | ((s.high >> (2 * group)) & 0x03030303u) << 4;
}

// Sixteen elements (eight, with EIGHTS) as quad_of takes them: quants16 in `a`, or eight of 16 bits each in `a` and `b`.
struct Sixteen {
    uvec4 a, b;
};

Sixteen unpack16(Stored16 s, Place at) {
    if (IS_16_BITS) return Sixteen(s.low, s.high);
    const uvec4 quants = quants16(s, at);
    return Sixteen(HAS_SIGNS && !IS_SIGNED ? quants ^ 0x80808080u : quants, uvec4(0));
}

// q of elements 4 · quad … 4 · quad + 3 of the sixteen; `quad` is a constant once loops are unrolled.
vec4 quad_of(Sixteen packed, uint quad) {
    if (IS_16_BITS) {
        const uvec4 eight = quad < 2 ? packed.a : packed.b;
        const uvec2 four = (quad & 1u) == 0 ? eight.xy : eight.zw;
        if (!IS_BF16) return vec4(unpackHalf2x16(four.x), unpackHalf2x16(four.y));
        return uintBitsToFloat(uvec4(four.x << 16, four.x & 0xFFFF0000u, four.y << 16, four.y & 0xFFFF0000u));
    }
    return bytes_to_floats(packed.a[quad]);
}

// (d · s, −m · t) of a group of 32 elements of q4_k or q5_k, from the vector that their blocks begin with.
vec2 group_scale(uvec4 head, uint group) {
    const vec2 factors = unpackHalf2x16(head.x);  // d, m
    const uint shift = 8 * (group & 3u);
    const uvec2 six = uvec2(head.y >> shift, head.z >> shift);
    const uvec2 four = uvec2(head.w >> shift, head.w >> (shift + 4)) & 15u;
    // Chosen, not branched to: behind a branch a compiler waits for what is loaded before it.
    const uvec2 numbers = mix(four | ((six >> 6) & 3u) << 4, six & 63u, bvec2(group < 4));
    return vec2(factors.x * float(numbers.x), -factors.y * float(numbers.y));
}

// (scale, offset) of what load16 gave for `at`.
vec2 scale16(Stored16 s, Place at) {
    const uint block = at.block, chunk = at.chunk, i = at.i;
    if (IS_16_BITS) return vec2(1.0, 0.0);
    if (IS_Q4K || IS_Q5K) return group_scale(s.scales, 2 * chunk + i / 2);
    if (IS_Q2K) {
        const uint both = s.scales.y >> (8 * (i & 3u));
        const vec2 factors = unpackHalf2x16(s.scales.x);  // d, m
        return vec2(factors.x * float(both & 15u), -factors.y * float(both >> 4 & 15u));
    }
    if (IS_Q3K) {
        const uint group = 8 * chunk + i;
        const uint lower = word_of_rest(s.scales.x, s.scales.y, block) >> (8 * (i & 3u) + 4 * chunk);
        const uint upper = word_of_rest(s.scales.z, s.scales.w, block) >> (8 * (i & 3u) + group / 4 * 2);
        const float scale = half_of_rest(s.scales.w, block) * float(int((lower & 15u) | (upper & 3u) << 4) - 32);
        return vec2(scale, -4.0 * scale);
    }
    float d = HAS_EXPONENT ? power_of(s.scales.x >> (8 * (block & 3u)) & 0xFFu) : half_of_rest(s.scales.x, block);
    if (IS_IQ4XS) {
        const uint lower = s.scales.y >> (4 * chunk), upper = s.scales.x >> (16 + 2 * chunk);
        d *= float(int((lower & 15u) | (upper & 3u) << 4) - 32);
    }
    if (HAS_SIGNS) return vec2(d, IS_SIGNED ? 0.0 : -128.0 * d);
    if (HAS_MINIMUM) return vec2(d, unpackHalf2x16(s.scales.x).y);
    if (IS_NIBBLES) return vec2(d, HAS_EXPONENT ? -12.0 * d : HAS_FIFTH_BITS ? -16.0 * d : -8.0 * d);
    const int factor = bitfieldExtract(int(s.scales.y), int(8 * (i & 3u)), 8);
    return vec2(d * float(factor), -32.0 * d * float(factor));
}

// A strip: sixteens of a chunk that are made of the same vectors but for what load_strip loads of the second: two, STRIP_STEP apart, or of
// 16-bit elements one. Neighbouring strips lie in neighbouring vectors.
const uint STRIP_SIXTEENS = IS_16_BITS ? 1 : 2;
const uint STRIP_STEP = IS_Q6K ? 4 : CHUNK_SIXTEENS > 2 ? 2 : 1;

// The first sixteen of strip `strip` of a row that begins with block `first_block`.
Place place_of_strip(uint first_block, uint strip) {
    const uint of_chunk = CHUNK_SIXTEENS / STRIP_SIXTEENS, chunks = strip / of_chunk, k = strip % of_chunk;
    const uint i = STRIP_SIXTEENS == 1 ? k : k / STRIP_STEP * 2 * STRIP_STEP + k % STRIP_STEP;
    return Place(first_block + chunks / BLOCK_CHUNKS, chunks % BLOCK_CHUNKS, i, 0);
}

Place next_place(Place at) { return Place(at.block, at.chunk, at.i + STRIP_STEP, at.part); }

// Which sixteen of a row that is, where the row's first block is block 0.
uint sixteen_of(Place at) { return (at.block * BLOCK_CHUNKS + at.chunk) * CHUNK_SIXTEENS + at.i; }

struct Strip {
    Place at;
    Stored16 first, next;  // what load16 gives for `at` and next_place(at)
};

Strip load_strip(Place at, uint blocks) {
    const Stored16 first = load16(at, blocks);
    Stored16 next = first;
    const uint base = at.block * BLOCK_VECTORS, i = at.i + STRIP_STEP;
    if (IS_Q8) next.low = weight_vector(base + i);
    if (IS_Q6K) next.scales.y = weight_words[(base + 12) * 4 + 2 * at.chunk + i / 4];
    return Strip(at, first, next);
}

// scale16 of the two sixteens, one behind the other. Of 16-bit elements the first is the only one.
vec4 strip_scales(Strip strip) {
    const Place at = strip.at;
    if (!IS_Q4K && !IS_Q5K) return vec4(scale16(strip.first, at), scale16(strip.next, next_place(at)));
    // As group_scale, of two groups at a time: two bytes of each word.
    const uvec4 head = strip.first.scales;
    const vec2 factors = unpackHalf2x16(head.x);  // d, m
    const uint shift = 16 * (at.chunk & 1u);
    const uvec2 six = uvec2(head.y >> shift, head.z >> shift);
    const uvec2 four = uvec2(head.w >> shift, head.w >> (shift + 4)) & 0x0F0Fu;
    const uvec2 numbers = mix(four | ((six >> 2) & 0x3030u), six & 0x3F3Fu, bvec2(at.chunk < 2));
    return vec4(numbers & 0xFFu, (numbers >> 8) & 0xFFu) * vec4(factors.x, -factors.y, factors.x, -factors.y);
}
#endif
