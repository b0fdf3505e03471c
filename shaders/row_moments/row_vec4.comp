#version 460
// SPDX-License-Identifier: MIT
// row_moments/row.comp for rows that are multiples of 4, four elements at a time:
// y[row, i] = max(x[row, i] − mean(x) − bound · sqrt(var(x)), 0), var the biased one or, with `like`,
// y[row, i] = x[row, i] · sqrt(mean(like²) / max(mean(x²), bound)), means over the row.
// x, like, y: [rows, width]; storage as lib/storage4.glsl says, arithmetic in float32. Gemma 3n's sparse gates and streams.
// One workgroup per row; an invocation owns the quads ≡ its index modulo the workgroup's size and keeps KEPT of x's. With `like` both
// sums are of the same walk.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "row_moments/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"
#include "lib/storage4.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kRowMomentsHasLike) const uint HAS_LIKE = 0;
layout(constant_id = kRowMomentsKept) const uint KEPT = 0;
layout(push_constant) uniform Push { PART_OF_GRID RowMomentsPush p; };
layout(std430, binding = kRowMomentsX) readonly buffer X { ELEMENT4 x[]; };
layout(std430, binding = kRowMomentsLike) readonly buffer Like { ELEMENT4 like[]; };
layout(std430, binding = kRowMomentsY) writeonly buffer Y { ELEMENT4 y[]; };
#include "lib/numbers.glsl"
#include "lib/quads.glsl"
#include "lib/reduce.glsl"

vec4 squared(vec4 v) { return v * v; }

// What the first mean is of.
vec4 summand(uint i, vec4 value) { return HAS_LIKE == 1 ? squared(LOAD4(like, i)) : value; }

void finish(uint i, vec4 value, float mean, float mean_square) {
    if (HAS_LIKE == 1) {
        STORE4(y, i, value * sqrt(mean / max_keeping_nan(mean_square, p.bound)));
        return;
    }
    vec4 above = value - mean - p.bound * sqrt(mean_square);
    [[unroll]] for (uint c = 0; c < 4; ++c) above[c] = max_keeping_nan(above[c], 0.0);
    STORE4(y, i, above);
}

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;  // the whole workgroup leaves
    const uint quads = p.width / 4;
    const uint base = row * quads;

    vec4 kept[KEPT_SIZE];
    vec4 sums = vec4(0.0), squares = vec4(0.0);
    [[unroll]] for (uint k = 0; k < KEPT; ++k) {
        kept[k] = LOAD4(x, base + kept_quad(k));
        sums += summand(base + kept_quad(k), kept[k]);
        if (HAS_LIKE == 1) squares += squared(kept[k]);
    }
    for (uint i = first_unkept_quad(); i < quads; i += gl_WorkGroupSize.x) {
        const vec4 value = LOAD4(x, base + i);
        sums += summand(base + i, value);
        if (HAS_LIKE == 1) squares += squared(value);
    }
    const float mean = workgroup_sum(sum_of(sums)) / float(p.width);  // with `like`, of its squares

    if (HAS_LIKE == 0) {
        [[unroll]] for (uint k = 0; k < KEPT; ++k) squares += squared(kept[k] - mean);
        for (uint i = first_unkept_quad(); i < quads; i += gl_WorkGroupSize.x) squares += squared(LOAD4(x, base + i) - mean);
    }
    const float mean_square = workgroup_sum(sum_of(squares)) / float(p.width);

    [[unroll]] for (uint k = 0; k < KEPT; ++k) finish(base + kept_quad(k), kept[k], mean, mean_square);
    for (uint i = first_unkept_quad(); i < quads; i += gl_WorkGroupSize.x) finish(base + i, LOAD4(x, base + i), mean, mean_square);
}
