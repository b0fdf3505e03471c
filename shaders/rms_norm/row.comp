#version 460
// SPDX-License-Identifier: MIT
// s = x + residual,  y = (gain + gain_offset) · s / sqrt(mean(s²) + eps) over the last dimension.
// x, residual, sum, y: [rows, width]; gain: [p.gain_rows, width], by turns, 1 where it is absent; storage as lib/storage.glsl
// says, arithmetic in float32.
// Zhang and Sennrich 2019, eq. 4.
// One workgroup per row; an invocation owns the elements i ≡ its index modulo the workgroup's size. Two walks over the row.
#extension GL_GOOGLE_include_directive : require
#include "rms_norm/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kRmsNormHasResidual) const uint HAS_RESIDUAL = 0;
layout(constant_id = kRmsNormHasGain) const uint HAS_GAIN = 0;
layout(constant_id = kRmsNormHasSum) const uint HAS_SUM = 0;
layout(push_constant) uniform Push { PART_OF_GRID RmsNormPush p; };
layout(std430, binding = kRmsNormX) readonly buffer X { ELEMENT x[]; };
layout(std430, binding = kRmsNormResidual) readonly buffer Residual { ELEMENT residual[]; };
layout(std430, binding = kRmsNormGain) readonly buffer Gain { ELEMENT gain[]; };
layout(std430, binding = kRmsNormSum) STORED buffer Sum { ELEMENT sum[]; };
layout(std430, binding = kRmsNormY) STORED buffer Y { ELEMENT y[]; };
#include "lib/reduce.glsl"

float element(uint i) {
    float s = LOAD(x, i);
    if (HAS_RESIDUAL == 1) s += LOAD(residual, i);
    return s;
}

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;  // the whole workgroup leaves
    const uint base = row * p.width;

    float squares = 0.0;
    for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x) {
        const float s = element(base + i);
        squares += s * s;
    }
    const float scale = inversesqrt(workgroup_sum(squares) / float(p.width) + p.eps);

    const uint gains = row % p.gain_rows * p.width;
    for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x) {
        const float s = element(base + i);
        if (HAS_SUM == 1) STORE(sum, base + i, s);
        const float factor = (HAS_GAIN == 1 ? LOAD(gain, gains + i) : 1.0) + p.gain_offset;
        STORE(y, base + i, factor * s * scale);
    }
}
