#version 460
// SPDX-License-Identifier: MIT
// y[row, i] = f(gate[row, i]) · up[row, i], f of lib/activation.glsl. y: [rows, width]; gate and up are two tensors of that shape,
// or one [rows, 2 · width] with the gates first; storage as lib/storage.glsl says, arithmetic in float32. Shazeer 2020, eq. 5, 6.
// One workgroup per 4 · gl_WorkGroupSize.x consecutive elements of a row; an invocation owns four of them, a workgroup's size
// apart, so that neighbours read neighbours.
#extension GL_GOOGLE_include_directive : require
#include "gated_activation/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kGatedActivationActivation) const uint ACTIVATION = kActivationNone;
layout(push_constant) uniform Push { PART_OF_GRID GatedActivationPush p; };
layout(std430, binding = kGatedActivationGate) readonly buffer Gate { ELEMENT gate[]; };
layout(std430, binding = kGatedActivationUp) readonly buffer Up { ELEMENT up[]; };
layout(std430, binding = kGatedActivationY) STORED buffer Y { ELEMENT y[]; };
#include "gated_activation/gated.glsl"

void main() {
    const uint chunk = gl_WorkGroupSize.x * kGatedActivationElementsPerInvocation;
    const uint chunks = (p.width + chunk - 1) / chunk;
    const uint row = linear_workgroup() / chunks;
    if (row >= p.rows) return;
    const uint first = linear_workgroup() % chunks * chunk;
    for (uint k = 0; k < kGatedActivationElementsPerInvocation; ++k) {
        const uint i = first + k * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
        if (i >= p.width) return;
        const uint at = row * p.stride + i;
        STORE(y, row * p.width + i, gated(LOAD(gate, at), LOAD(up, at + p.up_offset)));
    }
}
