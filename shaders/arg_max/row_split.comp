#version 460
// SPDX-License-Identifier: MIT
// As arg_max.comp, a row cut into SPLITS parts of equal length: few rows of a large vocabulary fill a GPU. First a workgroup for each part
// of each row leaves the first of its elements, then (COMBINES) a workgroup per row chooses among those. parts: [rows, SPLITS] candidates.
#extension GL_GOOGLE_include_directive : require
#include "arg_max/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kArgMaxSplits) const uint SPLITS = 2;
layout(constant_id = kArgMaxCombines) const uint COMBINES = 0;
layout(push_constant) uniform Push { PART_OF_GRID ArgMaxPush p; };
layout(std430, binding = kArgMaxX) readonly buffer X { uint x[]; };
layout(std430, binding = kArgMaxY) writeonly buffer Y { uint y[]; };
layout(std430, binding = kArgMaxParts) buffer Parts { uvec2 parts[]; };
#include "lib/reduce_candidate.glsl"

void main() {
    const uint place = linear_workgroup(), row = COMBINES == 0 ? place / SPLITS : place;
    if (row >= p.rows) return;  // the whole workgroup leaves

    Candidate first = kAfterAll;
    if (COMBINES == 0) {
        const uint len = (p.width + SPLITS - 1) / SPLITS, begin = place % SPLITS * len, end = min(begin + len, p.width);
        for (uint i = begin + gl_LocalInvocationIndex; i < end; i += gl_WorkGroupSize.x) {
            const Candidate candidate = Candidate(order_key(x[row * p.width + i]), i);
            if (comes_before(candidate, first)) first = candidate;
        }
    } else {
        for (uint i = gl_LocalInvocationIndex; i < SPLITS; i += gl_WorkGroupSize.x) {
            const uvec2 part = parts[row * SPLITS + i];
            const Candidate candidate = Candidate(part.x, part.y);
            if (comes_before(candidate, first)) first = candidate;
        }
    }
    first = workgroup_first(first);
    if (gl_LocalInvocationIndex != 0) return;
    if (COMBINES == 0)
        parts[place] = uvec2(first.key, first.index);
    else
        y[row] = choice_of(first);
}
