#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual, for many rows whose width is a multiple of 4. x: [rows, in], weight: [out, in],
// bias: [out], residual, y: [rows, out]; storage as lib/storage.glsl says (residual and y: linear/epilogue.glsl), sums in float32, in
// the order of the depth.
// One workgroup per tile of 8 · ROWS rows × 64 columns of y. Both operands pass through shared memory in slices of four quads, a
// quad being four neighbours of a row, which is how they are loaded, stored and multiplied: three or two vectors are read for 32
// multiplications, where linear/tile.comp reads 12 numbers. Invocation (i, j) of 16 × 8 owns columns i + 16c and rows j + 8r, c < 4.
// Rows and columns past the end repeat the last one and are not stored; only the depth is padded with zeros. The next slice is on
// its way from memory while one is multiplied.
// linear/split_depth.glsl says what a workgroup does with a part of the depth.
// Shared memory: (64 + 8 · ROWS) · 5 · 16 bytes: 10 KiB for 8 rows an invocation, 15 KiB for 16.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "linear/epilogue.glsl"
#include "linear/split_depth.glsl"
#include "lib/storage4.glsl"

layout(constant_id = kLinearRows) const uint ROWS = 8;  // of an invocation
layout(std430, binding = kLinearX) readonly buffer X { ELEMENT4 x[]; };
layout(std430, binding = kLinearWeight) readonly buffer Weight { ELEMENT4 weight[]; };

const uint LANES_ALONG_COLUMNS = 16;
const uint LANES_ALONG_ROWS = kLinearVec4RowLanes;
const uint COLUMNS = kLinearTileColumns / LANES_ALONG_COLUMNS;  // of an invocation
const uint TILE_ROWS = LANES_ALONG_ROWS * ROWS;
const uint QUADS = 4;              // of a row in a slice
const uint PITCH = QUADS + 1;      // odd: eight rows of a quad each then lie in 32 banks
const uint FETCH_ROWS = kLinearTileWorkgroup / QUADS;  // that the workgroup fetches at a time
const uint X_FETCHES = TILE_ROWS / FETCH_ROWS;
const uint WEIGHT_FETCHES = kLinearTileColumns / FETCH_ROWS;
shared vec4 x_slice[TILE_ROWS * PITCH];
shared vec4 weight_slice[kLinearTileColumns * PITCH];

// What this invocation fetches of a slice: one quad each of these rows of x and of weight.
uint x_quad[X_FETCHES], weight_quad[WEIGHT_FETCHES];
vec4 next_x[X_FETCHES], next_weight[WEIGHT_FETCHES];

void fetch(uint first_quad, bool inside) {
    [[unroll]] for (uint i = 0; i < X_FETCHES; ++i) {
        next_x[i] = vec4(0.0);
        if (inside) next_x[i] = LOAD4(x, x_quad[i] + first_quad);
    }
    [[unroll]] for (uint i = 0; i < WEIGHT_FETCHES; ++i) {
        next_weight[i] = vec4(0.0);
        if (inside) next_weight[i] = LOAD4(weight, weight_quad[i] + first_quad);
    }
}

void main() {
    const uint column_tiles = (p.out_width + kLinearTileColumns - 1) / kLinearTileColumns;
    const uint tile = split_workgroup();
    const uint tile_row = tile / column_tiles * TILE_ROWS;
    const uint tile_column = tile % column_tiles * kLinearTileColumns;
    if (tile_row >= p.rows) return;  // the whole workgroup leaves
    const uint lane = gl_LocalInvocationIndex;
    const uint column_lane = lane % LANES_ALONG_COLUMNS, row_lane = lane / LANES_ALONG_COLUMNS;

    const uint width = p.in_width / 4, quad = lane % QUADS, fetched_row = lane / QUADS;
    const uint stored = fetched_row * PITCH + quad;
    [[unroll]] for (uint i = 0; i < X_FETCHES; ++i)
        x_quad[i] = (x_before() + min(tile_row + fetched_row + i * FETCH_ROWS, p.rows - 1)) * width + quad;
    [[unroll]] for (uint i = 0; i < WEIGHT_FETCHES; ++i)
        weight_quad[i] =
            (weight_before() + weight_row_of(tile_column + fetched_row + i * FETCH_ROWS, LANES_ALONG_COLUMNS)) * width + quad;

    float sum[ROWS][COLUMNS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[r][c] = 0.0;

    const uvec2 slices = steps_of_split((width + QUADS - 1) / QUADS);
    const uint end = slices.y * QUADS;
    fetch(slices.x * QUADS, slices.x * QUADS + quad < width);
    for (uint first = slices.x * QUADS; first < end; first += QUADS) {
        [[unroll]] for (uint i = 0; i < X_FETCHES; ++i) x_slice[stored + i * FETCH_ROWS * PITCH] = next_x[i];
        [[unroll]] for (uint i = 0; i < WEIGHT_FETCHES; ++i)
            weight_slice[stored + i * FETCH_ROWS * PITCH] = next_weight[i];
        barrier();
        fetch(first + QUADS, first + QUADS + quad < width);  // past the end it is not used
        [[unroll]] for (uint q = 0; q < QUADS; ++q) {
            vec4 w[COLUMNS];
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
                w[c] = weight_slice[(column_lane + c * LANES_ALONG_COLUMNS) * PITCH + q];
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                const vec4 value = x_slice[(row_lane + r * LANES_ALONG_ROWS) * PITCH + q];
                [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
                    sum[r][c] = add_product(value, w[c], sum[r][c]);
            }
        }
        barrier();  // before the next slices overwrite these
    }

    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const uint row = tile_row + row_lane + r * LANES_ALONG_ROWS;
        if (row >= p.rows) continue;
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
            FINISH_COLUMN(row, tile_column + column_lane, LANES_ALONG_COLUMNS, c, sum[r])
    }
}
