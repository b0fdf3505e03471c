#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual, for Vulkan devices that are CPUs, many rows, and in a multiple of 4.
// x: [rows, in], weight: [out, in], bias: [out], residual, y: [rows, out]; storage as lib/storage.glsl says (residual and y:
// lib/linear.glsl), sums in float32.
// linear_direct.comp turned round: the lanes lie along the rows of x. The address of a weight is the same for all lanes, so that one
// load of four serves them all; only x is gathered, and each gathered element meets 24 columns. One workgroup per
// 2 · gl_WorkGroupSize.x rows × 24 columns; an invocation owns 2 rows, a workgroup's size apart, and all these columns.
// Neighbouring workgroups share the weights, which stay in the cache.
// Gain over linear_direct.comp: docs/performance.md.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/linear.glsl"
#include "lib/storage4.glsl"

layout(std430, binding = kLinearX) readonly buffer X { ELEMENT4 x[]; };
layout(std430, binding = kLinearWeight) readonly buffer Weight { ELEMENT4 weight[]; };

const uint ROWS = kLinearTallRows, COLUMNS = kLinearTallColumns;

void main() {
    const uint tile_rows = gl_WorkGroupSize.x * ROWS;
    const uint row_tiles = (p.rows + tile_rows - 1) / tile_rows;
    const uint tile = linear_workgroup();
    const uint first_column = tile / row_tiles * COLUMNS;
    if (first_column >= p.out_width) return;
    const uint first_row = tile % row_tiles * tile_rows + gl_LocalInvocationIndex;
    const uint quads = p.in_width / 4;

    // Rows and columns past the last repeat it: their sums are not stored.
    uint x_row[ROWS], weight_row[COLUMNS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) x_row[r] = min(first_row + r * gl_WorkGroupSize.x, p.rows - 1) * quads;
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) weight_row[c] = min(first_column + c, p.out_width - 1) * quads;

    float sum[ROWS][COLUMNS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[r][c] = 0.0;

    for (uint k = 0; k < quads; ++k) {
        vec4 value[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) value[r] = LOAD4(x, x_row[r] + k);
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            const vec4 w = LOAD4(weight, weight_row[c] + k);
            [[unroll]] for (uint r = 0; r < ROWS; ++r) sum[r][c] = add_product(value[r], w, sum[r][c]);
        }
    }

    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            const uint row = first_row + r * gl_WorkGroupSize.x, column = first_column + c;
            if (row < p.rows && column < p.out_width) finish(row, column, sum[r][c]);
        }
    }
}
