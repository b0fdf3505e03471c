#version 460
// SPDX-License-Identifier: MIT
// y[row, i] = (x[row, i] − m) − log Σ_j exp(x[row, j] − m), m = max_j x[row, j]. x, y: [rows, width]; storage of x as
// lib/storage.glsl says, y and the arithmetic are float32. The largest element is taken off first: exp() cannot overflow, and
// the sum is at least 1. A NaN makes its row NaN; so does a row of nothing but −∞, which has no distribution.
// One workgroup per row; an invocation owns the elements i ≡ its index modulo the workgroup's size.
#extension GL_GOOGLE_include_directive : require
#include "log_softmax/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID LogSoftmaxPush p; };
layout(std430, binding = kLogSoftmaxX) readonly buffer X { ELEMENT x[]; };
layout(std430, binding = kLogSoftmaxY) writeonly buffer Y { float y[]; };
#include "lib/numbers.glsl"
#include "lib/reduce.glsl"

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;  // the whole workgroup leaves
    const uint base = row * p.width;

    float largest = MINUS_INFINITY;
    for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x)
        largest = max_keeping_nan(largest, LOAD(x, base + i));
    largest = workgroup_max(largest);

    float total = 0.0;
    for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x)
        total += exp(LOAD(x, base + i) - largest);
    const float log_total = log(workgroup_sum(total));

    for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x)
        y[base + i] = (LOAD(x, base + i) - largest) - log_total;
}
