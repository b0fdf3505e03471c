#version 460
// SPDX-License-Identifier: MIT
// y[i] = f(x[i]), f of lib/activation.glsl. x, y: [count]; storage as lib/storage.glsl says, arithmetic in float32.
// One workgroup per 4 · gl_WorkGroupSize.x consecutive elements; an invocation owns four of them, a workgroup's size apart,
// so that neighbours read neighbours.
#extension GL_GOOGLE_include_directive : require
#include "activate/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kActivateActivation) const uint ACTIVATION = kActivationNone;
layout(push_constant) uniform Push { PART_OF_GRID ActivatePush p; };
layout(std430, binding = kActivateX) readonly buffer X { ELEMENT x[]; };
layout(std430, binding = kActivateY) STORED buffer Y { ELEMENT y[]; };
#include "lib/activation.glsl"

void main() {
    const uint first = linear_workgroup() * gl_WorkGroupSize.x * kActivateElementsPerInvocation;
    for (uint k = 0; k < kActivateElementsPerInvocation; ++k) {
        const uint i = first + k * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
        if (i < p.count) STORE(y, i, activated(ACTIVATION, LOAD(x, i)));
    }
}
