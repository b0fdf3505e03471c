#version 460
// SPDX-License-Identifier: MIT
// target[i] = the sum, modulo 2^32, of what invocation i has read: a read bandwidth whose result shows that everything was
// read. Elements of 4 bytes, or of 16 with WIDE; bench/walk.glsl says who reads which of them. No bounds are checked.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "bench/contract.h"
#include "lib/grid.glsl"
const uvec2 first_workgroup = uvec2(0);  // whole grids
layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { BenchCopyPush p; };
#include "bench/walk.glsl"
layout(std430, binding = kBenchSource) readonly buffer Source { ELEMENT source[]; };
layout(std430, binding = kBenchTarget) writeonly buffer Target { uint target[]; };

void main() {
    const Walk walk = walk_of_invocation();
    uint at = walk.first;
    ELEMENT sums[kBenchCopyUnroll];
    [[unroll]] for (uint u = 0; u < kBenchCopyUnroll; ++u) sums[u] = ELEMENT(0);
    for (uint turn = 0; turn < p.turns; ++turn) {
        [[unroll]] for (uint u = 0; u < kBenchCopyUnroll; ++u) sums[u] += source[at + u * walk.step];
        at += kBenchCopyUnroll * walk.step;
    }
    const ELEMENT all = sums[0] + sums[1] + sums[2] + sums[3];
    const uint invocation = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
#ifdef WIDE
    target[invocation] = all.x + all.y + all.z + all.w;
#else
    target[invocation] = all;
#endif
}
