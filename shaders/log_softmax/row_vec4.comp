#version 460
// SPDX-License-Identifier: MIT
// log_softmax/row.comp for rows that are multiples of 4, four elements at a time:
// y[row, i] = (x[row, i] − m) − log Σ_j exp(x[row, j] − m), m = max_j x[row, j]. x, y: [rows, width]; storage of x as
// lib/storage4.glsl says, y and the arithmetic are float32. A NaN makes its row NaN; so does a row of nothing but −∞.
// Rows are vocabularies, too long to keep: the maximum and the sum are formed in one walk, the sum multiplied by exp(m_old − m_new)
// whenever the maximum grows (Milakov and Gimelshein 2018, algorithm 3), so that the row is read twice and not three times.
// One workgroup per row; an invocation owns the quads ≡ its index modulo the workgroup's size.
#extension GL_GOOGLE_include_directive : require
#include "log_softmax/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"
#include "lib/storage4.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID LogSoftmaxPush p; };
layout(std430, binding = kLogSoftmaxX) readonly buffer X { ELEMENT4 x[]; };
layout(std430, binding = kLogSoftmaxY) writeonly buffer Y { vec4 y[]; };
#include "lib/numbers.glsl"
#include "lib/reduce.glsl"

// exp(a − b), 0 where a is −∞ whatever b is.
float exp_difference(float a, float b) { return a == MINUS_INFINITY ? 0.0 : exp(a - b); }

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;  // the whole workgroup leaves
    const uint quads = p.width / 4;
    const uint base = row * quads;

    float largest = MINUS_INFINITY, total = 0.0;  // of this invocation's elements so far
    for (uint i = gl_LocalInvocationIndex; i < quads; i += gl_WorkGroupSize.x) {
        const vec4 v = LOAD4(x, base + i);
        const float of_quad = max_keeping_nan(max_keeping_nan(v.x, v.y), max_keeping_nan(v.z, v.w));
        const float grown = max_keeping_nan(largest, of_quad);
        if (grown != MINUS_INFINITY) {
            const vec4 e = exp(v - grown);
            total = total * exp_difference(largest, grown) + (e.x + e.y) + (e.z + e.w);
            largest = grown;
        }
    }
    const float of_row = workgroup_max(largest);
    const float log_total = log(workgroup_sum(total * exp_difference(largest, of_row)));

    for (uint i = gl_LocalInvocationIndex; i < quads; i += gl_WorkGroupSize.x)
        y[base + i] = (LOAD4(x, base + i) - of_row) - log_total;
}
