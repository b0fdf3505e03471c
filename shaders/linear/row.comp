#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual, for few rows (a decode step), where reading the weights once is all the cost.
// x: [rows, in], weight: [out, in], bias: [out], residual, y: [rows, out], rows = ROWS ≤ 8; storage as lib/storage.glsl says
// (residual and y: linear/epilogue.glsl), sums in float32.
// One workgroup per four columns of y, for all rows; an invocation owns the depths k ≡ its index modulo the workgroup's size
// and has ROWS · 4 partial sums in registers. They are added up through shared memory: invocation s adds the 64 parts of sum s.
// Shared memory: 32 sums · 65 · 4 = 8320 bytes.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "linear/epilogue.glsl"

layout(constant_id = kLinearRows) const uint ROWS = 1;
layout(std430, binding = kLinearX) readonly buffer X { ELEMENT x[]; };
layout(std430, binding = kLinearWeight) readonly buffer Weight { ELEMENT weight[]; };
layout(std430, binding = kLinearGain) readonly buffer Gain { ELEMENT gain[]; };

const uint COLUMNS = kLinearRowColumns;
const uint PITCH = kLinearRowWorkgroup + 1;  // odd: the sums that neighbours add up then lie in different banks
shared float parts[kLinearMaxRows * COLUMNS][PITCH];

float total_of(uint s) {
    float total = 0.0;
    for (uint i = 0; i < gl_WorkGroupSize.x; ++i) total += parts[s][i];
    return total;
}

// The total of a sum of the row; behind the sums lie those of the squares.
float scaled_total_of(uint s) {
    const float total = total_of(s);
    return HAS_NORM ? total * norm_scale(total_of(ROWS * COLUMNS + s / COLUMNS)) : total;
}

void main() {
    const uint first_column = linear_workgroup() * COLUMNS;
    if (first_column >= p.out_width) return;  // the whole workgroup leaves
    const uint lane = gl_LocalInvocationIndex;

    uint weight_row[COLUMNS];  // columns past the last repeat it: their sums are not stored
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
        weight_row[c] = (weight_before() + weight_row_of(first_column + c, 1)) * p.in_width;

    float sum[kLinearMaxRows][COLUMNS], squares[kLinearMaxRows];
    [[unroll]] for (uint r = 0; r < kLinearMaxRows; ++r) {
        squares[r] = 0.0;
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[r][c] = 0.0;
    }

    for (uint k = lane; k < p.in_width; k += gl_WorkGroupSize.x) {
        float w[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) w[c] = LOAD(weight, weight_row[c] + k);
        [[unroll]] for (uint r = 0; r < kLinearMaxRows; ++r) {
            if (r >= ROWS) continue;  // decided when the pipeline is made
            float value = LOAD(x, (x_before() + r) * p.in_width + k);
            if (HAS_NORM) {
                squares[r] += value * value;
                value *= (HAS_GAIN ? LOAD(gain, k) : 1.0) + p.norm_gain_offset;
            }
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[r][c] += value * w[c];
        }
    }

    [[unroll]] for (uint r = 0; r < kLinearMaxRows; ++r)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
            if (r < ROWS) parts[r * COLUMNS + c][lane] = sum[r][c];
    if (HAS_NORM)
        [[unroll]] for (uint r = 0; r < kLinearMaxRows; ++r)
            if (r < ROWS) parts[ROWS * COLUMNS + r][lane] = squares[r];
    barrier();
    if (END == kLinearEndGate) {
        for (uint s = lane * 2; s < ROWS * COLUMNS; s += gl_WorkGroupSize.x * 2)
            finish_gated(s / COLUMNS, first_column + s % COLUMNS, 1, scaled_total_of(s), scaled_total_of(s + 1));
        return;
    }
    for (uint s = lane; s < ROWS * COLUMNS; s += gl_WorkGroupSize.x) {
        const uint column = first_column + s % COLUMNS;
        if (column < p.out_width) finish(s / COLUMNS, column, scaled_total_of(s));
    }
}
