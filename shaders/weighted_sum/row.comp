#version 460
// SPDX-License-Identifier: MIT
// weighted_sum/weighted_sum.comp for one query: the results of a token's experts, a step of attention.
//     y[b, h, v] = Σ_j weights[b, h, j] · value[b, j, h / (heads / kv_heads), v]
// weights: [batch, heads, key_len] float32; value: [batch, key_len, kv_heads, value_dim], y: [batch, heads, value_dim], storage as
// lib/storage.glsl says, sums in float32.
// One workgroup per head and as many columns v as it has invocations, each of which owns one.
#extension GL_GOOGLE_include_directive : require
#include "weighted_sum/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID WeightedSumPush p; };
layout(std430, binding = kWeightedSumWeights) readonly buffer Weights { float weights[]; };
layout(std430, binding = kWeightedSumValue) readonly buffer Value { ELEMENT value[]; };
layout(std430, binding = kWeightedSumY) STORED buffer Y { ELEMENT y[]; };

void main() {
    const uint column_groups = (p.value_dim + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
    const uint batch_head = linear_workgroup() / column_groups;
    const uint v = linear_workgroup() % column_groups * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (batch_head >= p.batch * p.heads || v >= p.value_dim) return;
    const uint kv_head = batch_head % p.heads / (p.heads / p.kv_heads);
    const uint first = (batch_head / p.heads * p.key_len * p.kv_heads + kv_head) * p.value_dim + v;

    float sum = 0.0;
    for (uint j = 0; j < p.key_len; ++j)
        sum = fma(weights[batch_head * p.key_len + j], LOAD(value, first + j * p.kv_heads * p.value_dim), sum);
    STORE(y, batch_head * p.value_dim + v, sum);
}
