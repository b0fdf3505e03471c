#version 460
// SPDX-License-Identifier: MIT
// s = x + residual,  y = gain · (s − mean(s)) / sqrt(var(s) + eps) + bias over the last dimension; var is the biased one.
// x, residual, sum, y: [rows, width]; gain: [p.gain_rows, width], by turns; bias: [width]; storage as lib/storage.glsl says, arithmetic in float32.
// Ba et al. 2016, eq. 4. Two passes over the row (mean, then squared distances): no cancellation for rows far from zero.
// One workgroup per row; an invocation owns the elements i ≡ its index modulo the workgroup's size.
#extension GL_GOOGLE_include_directive : require
#include "layer_norm/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kLayerNormHasResidual) const uint HAS_RESIDUAL = 0;
layout(constant_id = kLayerNormHasBias) const uint HAS_BIAS = 0;
layout(constant_id = kLayerNormHasSum) const uint HAS_SUM = 0;
layout(push_constant) uniform Push { PART_OF_GRID LayerNormPush p; };
layout(std430, binding = kLayerNormX) readonly buffer X { ELEMENT x[]; };
layout(std430, binding = kLayerNormResidual) readonly buffer Residual { ELEMENT residual[]; };
layout(std430, binding = kLayerNormGain) readonly buffer Gain { ELEMENT gain[]; };
layout(std430, binding = kLayerNormBias) readonly buffer Bias { ELEMENT bias[]; };
layout(std430, binding = kLayerNormSum) STORED buffer Sum { ELEMENT sum[]; };
layout(std430, binding = kLayerNormY) STORED buffer Y { ELEMENT y[]; };
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

    float total = 0.0;
    for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x) total += element(base + i);
    const float mean = workgroup_sum(total) / float(p.width);

    float squares = 0.0;
    for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x) {
        const float distance = element(base + i) - mean;
        squares += distance * distance;
    }
    const float scale = inversesqrt(workgroup_sum(squares) / float(p.width) + p.eps);

    const uint gains = row % p.gain_rows * p.width;
    for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x) {
        const float s = element(base + i);
        if (HAS_SUM == 1) STORE(sum, base + i, s);
        float result = LOAD(gain, gains + i) * (s - mean) * scale;
        if (HAS_BIAS == 1) result += LOAD(bias, i);
        STORE(y, base + i, result);
    }
}
