#version 460
// SPDX-License-Identifier: MIT
// layer_norm/row.comp for rows that are multiples of 4, four elements at a time:
// s = x + residual,  y = gain · (s − mean(s)) / sqrt(var(s) + eps) + bias over the last dimension. Ba et al. 2016, eq. 4.
// x, residual, sum, y: [rows, width]; gain: [p.gain_rows, width], by turns; bias: [width]; storage as lib/storage4.glsl says, arithmetic in float32.
// One workgroup per row; an invocation owns the quads ≡ its index modulo the workgroup's size and keeps KEPT of them.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "layer_norm/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"
#include "lib/storage4.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kLayerNormHasResidual) const uint HAS_RESIDUAL = 0;
layout(constant_id = kLayerNormHasBias) const uint HAS_BIAS = 0;
layout(constant_id = kLayerNormHasSum) const uint HAS_SUM = 0;
layout(constant_id = kLayerNormKept) const uint KEPT = 0;
layout(push_constant) uniform Push { PART_OF_GRID LayerNormPush p; };
layout(std430, binding = kLayerNormX) readonly buffer X { ELEMENT4 x[]; };
layout(std430, binding = kLayerNormResidual) readonly buffer Residual { ELEMENT4 residual[]; };
layout(std430, binding = kLayerNormGain) readonly buffer Gain { ELEMENT4 gain[]; };
layout(std430, binding = kLayerNormBias) readonly buffer Bias { ELEMENT4 bias[]; };
layout(std430, binding = kLayerNormSum) writeonly buffer Sum { ELEMENT4 sum[]; };
layout(std430, binding = kLayerNormY) writeonly buffer Y { ELEMENT4 y[]; };
#include "lib/quads.glsl"
#include "lib/reduce.glsl"

vec4 quad(uint i) {
    vec4 s = LOAD4(x, i);
    if (HAS_RESIDUAL == 1) s += LOAD4(residual, i);
    return s;
}

void finish(uint base, uint gains, uint i, vec4 s, float mean, float scale) {
    if (HAS_SUM == 1) STORE4(sum, base + i, s);
    vec4 result = LOAD4(gain, gains + i) * (s - mean) * scale;
    if (HAS_BIAS == 1) result += LOAD4(bias, i);
    STORE4(y, base + i, result);
}

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;  // the whole workgroup leaves
    const uint quads = p.width / 4;
    const uint base = row * quads;

    vec4 kept[KEPT_SIZE];
    vec4 total = vec4(0.0);
    [[unroll]] for (uint k = 0; k < KEPT; ++k) total += kept[k] = quad(base + kept_quad(k));
    for (uint i = first_unkept_quad(); i < quads; i += gl_WorkGroupSize.x) total += quad(base + i);
    const float mean = workgroup_sum(sum_of(total)) / float(p.width);

    vec4 squares = vec4(0.0);
    [[unroll]] for (uint k = 0; k < KEPT; ++k) squares += (kept[k] - mean) * (kept[k] - mean);
    for (uint i = first_unkept_quad(); i < quads; i += gl_WorkGroupSize.x) {
        const vec4 distance = quad(base + i) - mean;
        squares += distance * distance;
    }
    const float scale = inversesqrt(workgroup_sum(sum_of(squares)) / float(p.width) + p.eps);

    const uint gains = row % p.gain_rows * quads;
    [[unroll]] for (uint k = 0; k < KEPT; ++k) finish(base, gains, kept_quad(k), kept[k], mean, scale);
    for (uint i = first_unkept_quad(); i < quads; i += gl_WorkGroupSize.x)
        finish(base, gains, i, quad(base + i), mean, scale);
}
