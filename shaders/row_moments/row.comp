#version 460
// SPDX-License-Identifier: MIT
// y[row, i] = max(x[row, i] − mean(x) − bound · sqrt(var(x)), 0), var the biased one or, with `like`,
// y[row, i] = x[row, i] · sqrt(mean(like²) / max(mean(x²), bound)), means over the row.
// x, like, y: [rows, width]; storage as lib/storage.glsl says, arithmetic in float32. Gemma 3n's sparse gates and streams.
// One workgroup per row; an invocation owns the elements i ≡ its index modulo the workgroup's size.
#extension GL_GOOGLE_include_directive : require
#include "row_moments/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kRowMomentsHasLike) const uint HAS_LIKE = 0;
layout(push_constant) uniform Push { PART_OF_GRID RowMomentsPush p; };
layout(std430, binding = kRowMomentsX) readonly buffer X { ELEMENT x[]; };
layout(std430, binding = kRowMomentsLike) readonly buffer Like { ELEMENT like[]; };
layout(std430, binding = kRowMomentsY) STORED buffer Y { ELEMENT y[]; };
#include "lib/numbers.glsl"
#include "lib/reduce.glsl"

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;  // the whole workgroup leaves
    const uint base = row * p.width;
    const bool has_like = HAS_LIKE == 1;

    float total = 0.0;
    for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x) {
        const float value = has_like ? LOAD(like, base + i) : LOAD(x, base + i);
        total += has_like ? value * value : value;
    }
    const float mean = workgroup_sum(total) / float(p.width);  // with `like`, of its squares

    float squares = 0.0;
    for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x) {
        const float distance = LOAD(x, base + i) - (has_like ? 0.0 : mean);
        squares += distance * distance;
    }
    const float mean_square = workgroup_sum(squares) / float(p.width);

    const float scale = sqrt(mean / max_keeping_nan(mean_square, p.bound));
    const float deviations = p.bound * sqrt(mean_square);
    for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x) {
        const float value = LOAD(x, base + i);
        STORE(y, base + i, has_like ? value * scale : max_keeping_nan(value - mean - deviations, 0.0));
    }
}
