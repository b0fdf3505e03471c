#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual for weights in a format of their own, for many rows.
// x: [rows, in], weight: [out, in] as lib/dequantize.glsl says, bias: [out], residual, y: [rows, out]; sums in float32.
// Tiles, shared memory and what an invocation owns are those of linear/tile.comp; a slice is sixteen elements of the depth. 64 of the
// 128 invocations make a column's sixteen weights each, once for all 64 rows, while the others fetch a row's sixteen elements of x.
// linear/split_depth.glsl says what a workgroup does with a part of the depth.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "linear/epilogue.glsl"
#include "lib/storage4.glsl"
#include "linear/split_depth.glsl"
#define WEIGHT_BINDING kLinearWeight
#define WEIGHT_FORMAT kLinearWeightFormat
#define BIASED_Q8
#include "lib/dequantize.glsl"

layout(std430, binding = kLinearX) readonly buffer X { ELEMENT4 x[]; };

const uint LANES_ALONG_COLUMNS = 16;
const uint COLUMNS = kQuantizedTileColumns / LANES_ALONG_COLUMNS;                   // of an invocation
const uint ROWS = kQuantizedTileRows * LANES_ALONG_COLUMNS / kQuantizedTileWorkgroup;  // of an invocation
const uint PITCH = 65;  // odd: what neighbours store, a depth each, lies in different banks, and so does what they load
shared float x_slice[kQuantizedTileDepth][PITCH];
shared float weight_slice[kQuantizedTileDepth][PITCH];

void store_x(uint row, uint sixteen, uint place) {
    [[unroll]] for (uint q = 0; q < 4; ++q) {
        vec4 value = vec4(0.0);
        if (row < p.rows) value = LOAD4(x, row * (p.in_width / 4) + sixteen * 4 + q);
        [[unroll]] for (uint i = 0; i < 4; ++i) x_slice[4 * q + i][place] = value[i];
    }
}

void store_weights(uint column, uint sixteen, uint place) {
    const uint row_blocks = p.in_width / BLOCK_ELEMENTS;
    const uint in_chunk = sixteen % CHUNK_SIXTEENS, chunks = sixteen / CHUNK_SIXTEENS;
    const uint block = weight_row_of(column, LANES_ALONG_COLUMNS) * row_blocks + chunks / BLOCK_CHUNKS, chunk = chunks % BLOCK_CHUNKS;
    const Sixteen packed = load16(block, chunk, in_chunk, p.out_width * row_blocks);
    const vec2 scale = scale16(block, chunk, in_chunk, p.out_width * row_blocks);
    [[unroll]] for (uint q = 0; q < 4; ++q) {
        const vec4 w = scale.x * quad_of(packed, q) + scale.y;
        [[unroll]] for (uint i = 0; i < 4; ++i) weight_slice[4 * q + i][place] = w[i];
    }
}

void main() {
    const uint column_tiles = (p.out_width + kQuantizedTileColumns - 1) / kQuantizedTileColumns;
    const uint tile = split_workgroup();
    const uint tile_row = tile / column_tiles * kQuantizedTileRows;
    const uint tile_column = tile % column_tiles * kQuantizedTileColumns;
    if (tile_row >= p.rows) return;  // the whole workgroup leaves
    const uint lane = gl_LocalInvocationIndex;
    const uint first_column = lane % LANES_ALONG_COLUMNS;
    const uint first_row = lane / LANES_ALONG_COLUMNS * ROWS;

    float sum[ROWS][COLUMNS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[r][c] = 0.0;

    const uvec2 part = steps_of_split(p.in_width / kQuantizedTileDepth);
    for (uint sixteen = part.x; sixteen < part.y; ++sixteen) {
        if (lane < kQuantizedTileColumns)
            store_weights(tile_column + lane, sixteen, lane);
        else
            store_x(tile_row + lane - kQuantizedTileColumns, sixteen, lane - kQuantizedTileColumns);
        barrier();
        for (uint k = 0; k < kQuantizedTileDepth; ++k) {
            float w[COLUMNS];
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
                w[c] = weight_slice[k][first_column + c * LANES_ALONG_COLUMNS];
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                const float value = x_slice[k][first_row + r];
                [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[r][c] += value * w[c];
            }
        }
        barrier();  // before the next slices overwrite these
    }

    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const uint row = tile_row + first_row + r;
        if (row >= p.rows) continue;
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
            FINISH_COLUMN(row, tile_column + first_column, LANES_ALONG_COLUMNS, c, sum[r])
    }
}
