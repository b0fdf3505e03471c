#version 460
// SPDX-License-Identifier: MIT
// y[row] = the index of the first element of x[row] in the order of lib/order.glsl: the largest, the lowest index on ties; −1 of a row
// with a NaN. x: f32 [rows, width], read as bits; y: i32 [rows].
// One workgroup per row; an invocation owns the elements i ≡ its index modulo the workgroup's size.
#extension GL_GOOGLE_include_directive : require
#include "arg_max/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID ArgMaxPush p; };
layout(std430, binding = kArgMaxX) readonly buffer X { uint x[]; };
layout(std430, binding = kArgMaxY) writeonly buffer Y { uint y[]; };
#include "lib/reduce_candidate.glsl"

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;  // the whole workgroup leaves

    Candidate first = kAfterAll;
    for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x) {
        const Candidate candidate = Candidate(order_key(x[row * p.width + i]), i);
        if (comes_before(candidate, first)) first = candidate;
    }
    first = workgroup_first(first);
    if (gl_LocalInvocationIndex == 0) y[row] = choice_of(first);
}
