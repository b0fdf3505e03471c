#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual, for Vulkan devices that are CPUs, and in a multiple of 4.
// x: [rows, in], weight: [out, in], bias: [out], residual, y: [rows, out]; storage as lib/storage.glsl says (residual and y:
// linear/epilogue.glsl), sums in float32.
// No shared memory: a CPU has caches, and its lanes gather from shared memory as slowly as from anywhere else. One workgroup
// per ROWS ≤ 8 rows × 4 · gl_WorkGroupSize.x columns; an invocation owns all these rows and 4 columns, a workgroup's size apart.
// The address of x is the same for all lanes, so one load serves them all; only the weights are gathered.
// EXPERTS: rows are those of a tile that expert_linear/group.comp has made, and weight, out and y those of its expert.
// Gain over linear/tile.comp on lavapipe at 1024³, two cores: 1.8 times (Mesa 22.3.6), 1.9 times (Mesa 25.0).
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "cpu_devices/linear/contract.h"
#ifdef EXPERTS
#include "expert_linear/product.glsl"
#else
#include "linear/epilogue.glsl"
#endif
#include "lib/storage4.glsl"

layout(constant_id = kLinearRows) const uint ROWS = 1;
layout(std430, binding = kLinearX) readonly buffer X { ELEMENT4 x[]; };
layout(std430, binding = kLinearWeight) readonly buffer Weight { ELEMENT4 weight[]; };

const uint COLUMNS = kCpuLinearLaneColumns;

void main() {
    const uint tile_columns = gl_WorkGroupSize.x * COLUMNS;
    const uint column_tiles = (p.out_width + tile_columns - 1) / tile_columns;
    const uint tile = linear_workgroup();
    const uvec2 rows = rows_of_tile(tile / column_tiles, ROWS);
    if (rows.x >= rows.y) return;
    const uint first_column = tile % column_tiles * tile_columns + gl_LocalInvocationIndex;
    const uint quads = p.in_width / 4;

    // Rows and columns past the last repeat it: their sums are not stored.
    uint x_row[kLinearMaxRows], weight_row[COLUMNS];
    [[unroll]] for (uint r = 0; r < kLinearMaxRows; ++r) x_row[r] = row_of_x(min(rows.x + r, rows.y - 1)) * quads;
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
        weight_row[c] = (weight_before() + weight_row_of(first_column + c * gl_WorkGroupSize.x, gl_WorkGroupSize.x)) * quads;

    float sum[kLinearMaxRows][COLUMNS];
    [[unroll]] for (uint r = 0; r < kLinearMaxRows; ++r)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[r][c] = 0.0;

    for (uint k = 0; k < quads; ++k) {
        vec4 w[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) w[c] = LOAD4(weight, weight_row[c] + k);
        [[unroll]] for (uint r = 0; r < kLinearMaxRows; ++r) {
            if (r >= ROWS) continue;  // decided when the pipeline is made
            const vec4 value = LOAD4(x, x_row[r] + k);
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[r][c] = add_product(value, w[c], sum[r][c]);
        }
    }

    [[unroll]] for (uint r = 0; r < kLinearMaxRows; ++r) {
        const uint row = rows.x + r;
        if (r >= ROWS || row >= rows.y) continue;
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
            FINISH_COLUMN(row, first_column, gl_WorkGroupSize.x, c, sum[r])
    }
}
