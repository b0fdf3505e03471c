#version 460
// SPDX-License-Identifier: MIT
// rms_norm/row.comp for rows that are multiples of 4, four elements at a time:
// s = x + residual,  y = (gain + gain_offset) · s / sqrt(mean(s²) + eps) over the last dimension. Zhang and Sennrich 2019, eq. 4.
// x, residual, sum, y: [rows, width]; gain: [p.gain_rows, width], by turns, 1 where it is absent; storage as lib/storage4.glsl
// says, arithmetic in float32.
// One workgroup per row; an invocation owns the quads ≡ its index modulo the workgroup's size and keeps KEPT of them.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "rms_norm/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"
#include "lib/storage4.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kRmsNormHasResidual) const uint HAS_RESIDUAL = 0;
layout(constant_id = kRmsNormHasGain) const uint HAS_GAIN = 0;
layout(constant_id = kRmsNormHasSum) const uint HAS_SUM = 0;
layout(constant_id = kRmsNormKept) const uint KEPT = 0;
layout(push_constant) uniform Push { PART_OF_GRID RmsNormPush p; };
layout(std430, binding = kRmsNormX) readonly buffer X { ELEMENT4 x[]; };
layout(std430, binding = kRmsNormResidual) readonly buffer Residual { ELEMENT4 residual[]; };
layout(std430, binding = kRmsNormGain) readonly buffer Gain { ELEMENT4 gain[]; };
layout(std430, binding = kRmsNormSum) writeonly buffer Sum { ELEMENT4 sum[]; };
layout(std430, binding = kRmsNormY) writeonly buffer Y { ELEMENT4 y[]; };
#include "lib/quads.glsl"
#include "lib/reduce.glsl"

vec4 quad(uint i) {
    vec4 s = LOAD4(x, i);
    if (HAS_RESIDUAL == 1) s += LOAD4(residual, i);
    return s;
}

void finish(uint base, uint gains, uint i, vec4 s, float scale) {
    if (HAS_SUM == 1) STORE4(sum, base + i, s);
    const vec4 factor = (HAS_GAIN == 1 ? LOAD4(gain, gains + i) : vec4(1.0)) + p.gain_offset;
    STORE4(y, base + i, factor * s * scale);
}

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;  // the whole workgroup leaves
    const uint quads = p.width / 4;
    const uint base = row * quads;

    vec4 kept[KEPT_SIZE];
    vec4 squares = vec4(0.0);
    [[unroll]] for (uint k = 0; k < KEPT; ++k) {
        kept[k] = quad(base + kept_quad(k));
        squares += kept[k] * kept[k];
    }
    for (uint i = first_unkept_quad(); i < quads; i += gl_WorkGroupSize.x) {
        const vec4 s = quad(base + i);
        squares += s * s;
    }
    const float scale = inversesqrt(workgroup_sum(sum_of(squares)) / float(p.width) + p.eps);

    const uint gains = row % p.gain_rows * quads;
    [[unroll]] for (uint k = 0; k < KEPT; ++k) finish(base, gains, kept_quad(k), kept[k], scale);
    for (uint i = first_unkept_quad(); i < quads; i += gl_WorkGroupSize.x) finish(base, gains, i, quad(base + i), scale);
}
