#version 460
// SPDX-License-Identifier: MIT
// cache[r, begins[r]:lengths[r]] = old cache[parents[r], begins[r]:lengths[r]], in place. cache: [groups · BEAMS, capacity, width],
// storage as lib/storage.glsl says; parents, lengths, begins (absent: 0): i32 [groups · BEAMS]. A parent outside the row's group
// leaves its row as it is.
// Workgroups are dealt to groups, p.workgroups_per_group to each. An invocation owns (position, element) columns of its group,
// a stride apart, and of such a column the values of all rows: it has read them into registers before it writes the first, and
// nobody else touches them, so working in place needs no barrier. Rows that are their own parents are neither read nor written;
// a group in which all are costs the reading of its parents.
// In a cache in blocks (lib/kv_cache.glsl) the integers are one plane, their scales a second one, both copied as words.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "cache_reorder/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kCacheReorderBeams) const uint BEAMS = 1;
layout(constant_id = kCacheReorderPlanes) const uint PLANES = 1;
layout(constant_id = kCacheReorderHasBegins) const uint HAS_BEGINS = 0;
layout(push_constant) uniform Push { PART_OF_GRID CacheReorderPush p; };
layout(std430, binding = kCacheReorderParents) readonly buffer Parents { int parents[]; };
layout(std430, binding = kCacheReorderBegins) readonly buffer Begins { int begins[]; };
layout(std430, binding = kCacheReorderLengths) readonly buffer Lengths { int lengths[]; };
layout(std430, binding = kCacheReorderCache) buffer Cache { ELEMENT cache[]; };

void main() {
    const uint group = linear_workgroup() / p.workgroups_per_group;
    if (group >= p.groups) return;
    const uint first_row = group * BEAMS;

    uint parent[BEAMS];
    uint begin[BEAMS], end[BEAMS];  // positions of the row that come from its parent
    uint least = p.capacity, longest = 0;
    [[unroll]] for (uint beam = 0; beam < BEAMS; ++beam) {
        const uint row = first_row + beam;
        parent[beam] = uint(parents[row]);  // of a negative one: huge
        const bool moves = parent[beam] - first_row < BEAMS && parent[beam] != row;
        begin[beam] = HAS_BEGINS == 1 ? uint(clamp(begins[row], 0, int(p.capacity))) : 0;
        end[beam] = moves ? uint(clamp(lengths[row], 0, int(p.capacity))) : 0;
        if (begin[beam] < end[beam]) least = min(least, begin[beam]);
        longest = max(longest, end[beam]);
    }

    const uint stride = p.workgroups_per_group * gl_WorkGroupSize.x;
    const uint first = linear_workgroup() % p.workgroups_per_group * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    for (uint plane = 0; plane < PLANES; ++plane) {
        const uint width = plane == 0 ? p.width : p.scale_width;
        const uint row_elements = p.capacity * width;
        const uint base = plane == 0 ? 0 : p.groups * BEAMS * p.capacity * p.width;
        for (uint i = least * width + first; i < longest * width; i += stride) {
            VALUE value[BEAMS];
            [[unroll]] for (uint beam = 0; beam < BEAMS; ++beam)
                if (i >= begin[beam] * width && i < end[beam] * width)
                    value[beam] = LOAD(cache, base + parent[beam] * row_elements + i);
            [[unroll]] for (uint beam = 0; beam < BEAMS; ++beam)
                if (i >= begin[beam] * width && i < end[beam] * width)
                    STORE(cache, base + (first_row + beam) * row_elements + i, value[beam]);
        }
    }
}
