#version 460
// SPDX-License-Identifier: MIT
// y[i] = cap · tanh(x[i] / cap). x, y: [count]; storage as lib/storage.glsl says, arithmetic in float32.
// Gemma Team 2024 (arXiv 2408.00118), section 2.
// One workgroup per 4 · gl_WorkGroupSize.x consecutive elements; an invocation owns four of them, a workgroup's size apart,
// so that neighbours read neighbours.
#extension GL_GOOGLE_include_directive : require
#include "soft_cap/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID SoftCapPush p; };
layout(std430, binding = kSoftCapX) readonly buffer X { ELEMENT x[]; };
layout(std430, binding = kSoftCapY) STORED buffer Y { ELEMENT y[]; };
#include "lib/soft_cap.glsl"

void main() {
    const uint first = linear_workgroup() * gl_WorkGroupSize.x * kSoftCapElementsPerInvocation;
    for (uint k = 0; k < kSoftCapElementsPerInvocation; ++k) {
        const uint i = first + k * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
        if (i < p.count) STORE(y, i, soft_capped(LOAD(x, i), p.cap));
    }
}
