#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual, for many rows. x: [rows, in], weight: [out, in], bias: [out], residual, y: [rows, out];
// storage as lib/storage.glsl says (residual and y: linear/epilogue.glsl), sums in float32, in the order of the depth.
// One workgroup per tile of 64 rows × 64 columns of y. Both operands pass through shared memory in slices 16 deep; slices at
// the edges are padded with zeros, which add nothing. Invocation (i, j) of 16 × 8 owns columns i + 16c and rows 8j + r, c < 4,
// r < 8: for each depth it reads 12 values for 32 multiplications; a row's value goes to 16 invocations at once.
// Shared memory: 2 slices · 16 · 66 · 4 = 8448 bytes. 32 accumulators per invocation: twice as many spill on older GPUs.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "linear/epilogue.glsl"
#include "lib/tile_sums.glsl"

layout(std430, binding = kLinearX) readonly buffer X { ELEMENT x[]; };
layout(std430, binding = kLinearWeight) readonly buffer Weight { ELEMENT weight[]; };

const uint LANES_ALONG_COLUMNS = 16;
const uint COLUMNS = kLinearTileColumns / LANES_ALONG_COLUMNS;                           // of an invocation
const uint ROWS = kLinearTileRows * LANES_ALONG_COLUMNS / kLinearTileWorkgroup;          // of an invocation
const uint PITCH = 66;  // not 64: 16 depths of two rows, stored by 32 neighbours, then lie in 32 banks
shared float x_slice[kLinearTileDepth][PITCH];
shared float weight_slice[kLinearTileDepth][PITCH];

vec4 four_rows(uint k, uint row) { return vec4(x_slice[k][row], x_slice[k][row + 1], x_slice[k][row + 2], x_slice[k][row + 3]); }

void main() {
    const uint column_tiles = (p.out_width + kLinearTileColumns - 1) / kLinearTileColumns;
    const uint tile = linear_workgroup();
    const uint tile_row = tile / column_tiles * kLinearTileRows;
    const uint tile_column = tile % column_tiles * kLinearTileColumns;
    if (tile_row >= p.rows) return;  // the whole workgroup leaves
    const uint lane = gl_LocalInvocationIndex;
    const uint first_column = lane % LANES_ALONG_COLUMNS;
    const uint first_row = lane / LANES_ALONG_COLUMNS * ROWS;

    mat4 sum[2];  // of four rows each
    sum[0] = sum[1] = mat4(0.0);

    for (uint depth = 0; depth < p.in_width; depth += kLinearTileDepth) {
        for (uint i = lane; i < kLinearTileDepth * kLinearTileRows; i += kLinearTileWorkgroup) {
            const uint k = i % kLinearTileDepth, row = tile_row + i / kLinearTileDepth;
            float value = 0.0;
            if (row < p.rows && depth + k < p.in_width) value = LOAD(x, (x_before() + row) * p.in_width + depth + k);
            x_slice[k][i / kLinearTileDepth] = value;
        }
        for (uint i = lane; i < kLinearTileDepth * kLinearTileColumns; i += kLinearTileWorkgroup) {
            const uint k = i % kLinearTileDepth, column = tile_column + i / kLinearTileDepth;
            float value = 0.0;
            if ((END == kLinearEndGate || column < p.out_width) && depth + k < p.in_width)
                value = LOAD(weight, (weight_before() + weight_row_of(column, LANES_ALONG_COLUMNS)) * p.in_width + depth + k);
            weight_slice[k][i / kLinearTileDepth] = value;
        }
        barrier();
        for (uint k = 0; k < kLinearTileDepth; ++k) {
            vec4 w;
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) w[c] = weight_slice[k][first_column + c * LANES_ALONG_COLUMNS];
            sum[0] += outerProduct(four_rows(k, first_row), w);
            sum[1] += outerProduct(four_rows(k, first_row + 4), w);
        }
        barrier();  // before the next slices overwrite these
    }

    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const uint row = tile_row + first_row + r;
        if (row >= p.rows) continue;
        const vec4 sums = row_of(sum[r / 4], r % 4);
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
            FINISH_COLUMN(row, tile_column + first_column, LANES_ALONG_COLUMNS, c, sums)
    }
}
