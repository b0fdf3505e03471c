#version 460
// SPDX-License-Identifier: MIT
// s = x + residual,  y = (gain + gain_offset) · s / sqrt(mean(s²) + eps) over the last dimension.
// x, residual, sum, y: [rows, width]; gain: [width], 1 where it is absent; storage as lib/storage.glsl says, arithmetic in float32.
// Zhang and Sennrich 2019, eq. 4.
// One workgroup per row; an invocation owns the elements i ≡ its index modulo the workgroup's size and keeps the first of them
// in registers, so that a row of up to KEPT workgroups' sizes is read once.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "interface/rms_norm.h"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kRmsNormHasResidual) const uint HAS_RESIDUAL = 0;
layout(constant_id = kRmsNormHasGain) const uint HAS_GAIN = 0;
layout(constant_id = kRmsNormHasSum) const uint HAS_SUM = 0;
layout(push_constant) uniform Push { RmsNormPush p; };
layout(std430, binding = kRmsNormX) readonly buffer X { ELEMENT x[]; };
layout(std430, binding = kRmsNormResidual) readonly buffer Residual { ELEMENT residual[]; };
layout(std430, binding = kRmsNormGain) readonly buffer Gain { ELEMENT gain[]; };
layout(std430, binding = kRmsNormSum) STORED buffer Sum { ELEMENT sum[]; };
layout(std430, binding = kRmsNormY) STORED buffer Y { ELEMENT y[]; };
#include "lib/grid.glsl"
#include "lib/reduce.glsl"

const uint KEPT = 8;  // registers; 128 invocations then keep 1024 elements

float element(uint i) {
    float s = LOAD(x, i);
    if (HAS_RESIDUAL == 1) s += LOAD(residual, i);
    return s;
}

void finish(uint base, uint i, float s, float scale) {
    if (HAS_SUM == 1) STORE(sum, base + i, s);
    const float factor = (HAS_GAIN == 1 ? LOAD(gain, i) : 1.0) + p.gain_offset;
    STORE(y, base + i, factor * s * scale);
}

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;  // the whole workgroup leaves
    const uint base = row * p.width;
    const uint lane = gl_LocalInvocationIndex;
    const uint beyond = KEPT * gl_WorkGroupSize.x + lane;

    float kept[KEPT];
    float squares = 0.0;
    [[unroll]] for (uint k = 0; k < KEPT; ++k) {
        const uint i = k * gl_WorkGroupSize.x + lane;
        kept[k] = i < p.width ? element(base + i) : 0.0;
        squares += kept[k] * kept[k];
    }
    for (uint i = beyond; i < p.width; i += gl_WorkGroupSize.x) {
        const float s = element(base + i);
        squares += s * s;
    }
    const float scale = inversesqrt(workgroup_sum(squares) / float(p.width) + p.eps);

    [[unroll]] for (uint k = 0; k < KEPT; ++k) {
        const uint i = k * gl_WorkGroupSize.x + lane;
        if (i < p.width) finish(base, i, kept[k], scale);
    }
    for (uint i = beyond; i < p.width; i += gl_WorkGroupSize.x) finish(base, i, element(base + i), scale);
}
