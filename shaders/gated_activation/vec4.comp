#version 460
// SPDX-License-Identifier: MIT
// gated_activation/elements.comp for rows that are multiples of 4: y[row, i] = f(gate[row, i]) · up[row, i], f of lib/activation.glsl.
// y: [rows, width]; gate and up are two tensors of that shape, or one [rows, 2 · width] with the gates first; storage as
// lib/storage4.glsl says, arithmetic in float32. Shazeer 2020, eq. 5, 6.
// One workgroup per 4 · gl_WorkGroupSize.x consecutive elements of a row; an invocation owns four neighbours, one load of each.
#extension GL_GOOGLE_include_directive : require
#include "gated_activation/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"
#include "lib/storage4.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kGatedActivationActivation) const uint ACTIVATION = kActivationNone;
layout(push_constant) uniform Push { PART_OF_GRID GatedActivationPush p; };
layout(std430, binding = kGatedActivationGate) readonly buffer Gate { ELEMENT4 gate[]; };
layout(std430, binding = kGatedActivationUp) readonly buffer Up { ELEMENT4 up[]; };
layout(std430, binding = kGatedActivationY) writeonly buffer Y { ELEMENT4 y[]; };
#include "gated_activation/gated.glsl"

void main() {
    const uint quads = p.width / 4;
    const uint chunks = (quads + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
    const uint row = linear_workgroup() / chunks;
    const uint i = linear_workgroup() % chunks * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (row >= p.rows || i >= quads) return;
    const uint at = row * (p.stride / 4) + i;
    const vec4 g = LOAD4(gate, at), u = LOAD4(up, at + p.up_offset / 4);
    STORE4(y, row * quads + i, vec4(gated(g.x, u.x), gated(g.y, u.y), gated(g.z, u.z), gated(g.w, u.w)));
}
