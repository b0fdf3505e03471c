#version 460
// SPDX-License-Identifier: MIT
// cache[b, starts[b] + i] = x[b, i]. x: [batch, len, width], cache: [batch, capacity, width], starts: i32 [batch] or absent
// (0), width = heads · dim; storage of x and cache as lib/storage.glsl says. Positions outside the cache are not written. The cache may
// be in pages: lib/pages.glsl.
// One workgroup per 4 · gl_WorkGroupSize.x consecutive elements of x; an invocation owns four of them, a workgroup's size apart.
#extension GL_GOOGLE_include_directive : require
#include "cache_append/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kCacheAppendHasStarts) const uint HAS_STARTS = 0;
layout(constant_id = kCacheAppendHasPages) const uint HAS_PAGES = 0;
layout(push_constant) uniform Push { PART_OF_GRID CacheAppendPush p; };
layout(std430, binding = kCacheAppendX) readonly buffer X { ELEMENT x[]; };
layout(std430, binding = kCacheAppendStarts) readonly buffer Starts { uint starts[]; };
layout(std430, binding = kCacheAppendCache) STORED buffer Cache { ELEMENT cache[]; };
layout(std430, binding = kCacheAppendPages) readonly buffer Pages { uint pages[]; };
const bool IN_PAGES = HAS_PAGES == 1;
#include "lib/pages.glsl"

void main() {
    const uint first = linear_workgroup() * gl_WorkGroupSize.x * kCacheAppendElementsPerInvocation;
    for (uint k = 0; k < kCacheAppendElementsPerInvocation; ++k) {
        const uint i = first + k * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
        if (i >= p.count) return;
        const uint row = i / p.width;
        const uint sequence = row / p.len;
        // Modulo 2^32: a negative position is a huge one, and −1 + 1 is 0.
        const uint position = (HAS_STARTS == 1 ? starts[sequence] : 0) + row % p.len;
        const uint to = row_to_write(sequence, p.capacity, position, p.rows);
        if (to != NO_ROW) STORE(cache, to * p.width + i % p.width, LOAD(x, i));
    }
}
