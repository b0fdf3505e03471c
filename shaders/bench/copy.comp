#version 460
// SPDX-License-Identifier: MIT
// target = source, as fast as the device moves memory. Elements of 4 bytes, or of 16 with WIDE; bench/walk.glsl says who copies
// which of them. The buffers are as long as all turns together: no bounds are checked.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "bench/contract.h"
#include "lib/grid.glsl"
const uvec2 first_workgroup = uvec2(0);  // whole grids
layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { BenchCopyPush p; };
#include "bench/walk.glsl"
layout(std430, binding = kBenchSource) readonly buffer Source { ELEMENT source[]; };
layout(std430, binding = kBenchTarget) writeonly buffer Target { ELEMENT target[]; };

void main() {
    const Walk walk = walk_of_invocation();
    uint at = walk.first;
    for (uint turn = 0; turn < p.turns; ++turn) {
        ELEMENT values[kBenchCopyUnroll];  // all loads first: they are in flight together
        [[unroll]] for (uint u = 0; u < kBenchCopyUnroll; ++u) values[u] = source[at + u * walk.step];
        [[unroll]] for (uint u = 0; u < kBenchCopyUnroll; ++u) target[at + u * walk.step] = values[u];
        at += kBenchCopyUnroll * walk.step;
    }
}
