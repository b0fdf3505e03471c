#version 460
// SPDX-License-Identifier: MIT
// cache[b, starts[b] + i] = x[b, i] as in cache_append/cache_append.comp, x: [batch, len, width], into a cache of blocks: every 32 neighbours x become
// d = max |x| / 127, rounded to float16, and integers q = round(x / d), so that x ≈ d · q (lib/kv_cache.glsl says how they lie). A
// block with a NaN or an infinity gets a d that is NaN: it stays visible. Storage of x as lib/storage.glsl says; width is a multiple of
// 64, so that no word holds scales of two positions.
// An invocation owns four neighbours, one word of the cache; the eight of a block find its maximum through shared memory.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "cache_append/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kCacheAppendHasStarts) const uint HAS_STARTS = 0;
layout(constant_id = kCacheAppendHasPages) const uint HAS_PAGES = 0;
layout(push_constant) uniform Push { PART_OF_GRID CacheAppendPush p; };
layout(std430, binding = kCacheAppendX) readonly buffer X { ELEMENT x[]; };
layout(std430, binding = kCacheAppendStarts) readonly buffer Starts { uint starts[]; };
layout(std430, binding = kCacheAppendCache) writeonly buffer Cache { uint cache[]; };
layout(std430, binding = kCacheAppendPages) readonly buffer Pages { uint pages[]; };
const bool IN_PAGES = HAS_PAGES == 1;
#include "lib/pages.glsl"
#include "lib/numbers.glsl"

shared float quad_largest[kCacheAppendWorkgroup];  // of four elements: the largest magnitude

// d as a float16 in the lower half of a word. An infinity's exponent or a NaN's is 255.
uint scale_bits(float largest) {
    const bool is_finite = (floatBitsToUint(largest) & 0x7F800000u) != 0x7F800000u;
    return is_finite ? packHalf2x16(vec2(largest / 127.0, 0.0)) & 0xFFFFu : 0x7E00u;
}

float largest_of_block(uint block) {
    float largest = 0.0;
    [[unroll]] for (uint q = 0; q < kCacheBlockQuads; ++q)
        largest = max_keeping_nan(largest, quad_largest[block * kCacheBlockQuads + q]);
    return largest;
}

void main() {
    const uint lane = gl_LocalInvocationIndex;
    const uint quad = linear_workgroup() * gl_WorkGroupSize.x + lane;  // of x
    const bool inside = quad < p.count / 4;
    vec4 four = vec4(0.0);
    if (inside) {
        [[unroll]] for (uint i = 0; i < 4; ++i) four[i] = LOAD(x, quad * 4 + i);
    }
    float largest = 0.0;
    [[unroll]] for (uint i = 0; i < 4; ++i) largest = max_keeping_nan(largest, abs(four[i]));
    quad_largest[lane] = largest;
    barrier();
    if (!inside) return;

    const uint row_quads = p.width / 4, row = quad / row_quads, sequence = row / p.len;
    // Modulo 2^32: a negative position is a huge one, and −1 + 1 is 0.
    const uint position = (HAS_STARTS == 1 ? starts[sequence] : 0) + row % p.len;
    const uint cache_row = row_to_write(sequence, p.capacity, position, p.rows);
    if (cache_row == NO_ROW) return;
    const uint to = cache_row * row_quads + quad % row_quads;

    const uint block = lane / kCacheBlockQuads;
    const uint bits = scale_bits(largest_of_block(block));
    const float d = unpackHalf2x16(bits).x;
    uint word = 0;
    if (d > 0.0)  // not where all are 0, or a d that is none
        [[unroll]] for (uint i = 0; i < 4; ++i)
            word |= (uint(int(roundEven(clamp(four[i] / d, -127.0, 127.0)))) & 0xFFu) << (8 * i);
    cache[to] = word;

    // The first of two blocks writes the word of their scales, behind all integers.
    if (lane % (2 * kCacheBlockQuads) == 0)
        cache[p.rows * row_quads + to / (2 * kCacheBlockQuads)] = bits | scale_bits(largest_of_block(block + 1)) << 16;
}
