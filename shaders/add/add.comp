#version 460
// SPDX-License-Identifier: MIT
// y[i] = scale · (a[i] + b[i]). a, b, y: [count]; storage as lib/storage.glsl says, arithmetic in float32.
// One workgroup per 4 · gl_WorkGroupSize.x consecutive elements; an invocation owns four of them, a workgroup's size apart,
// so that neighbours read neighbours.
#extension GL_GOOGLE_include_directive : require
#include "add/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID AddPush p; };
layout(std430, binding = kAddA) readonly buffer A { ELEMENT a[]; };
layout(std430, binding = kAddB) readonly buffer B { ELEMENT b[]; };
layout(std430, binding = kAddY) STORED buffer Y { ELEMENT y[]; };

void main() {
    const uint first = linear_workgroup() * gl_WorkGroupSize.x * kAddElementsPerInvocation;
    for (uint k = 0; k < kAddElementsPerInvocation; ++k) {
        const uint i = first + k * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
        if (i < p.count) STORE(y, i, p.scale * (LOAD(a, i) + LOAD(b, i)));
    }
}
