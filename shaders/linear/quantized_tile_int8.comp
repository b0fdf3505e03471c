#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual as linear/tile_vec4.comp, with the activations rounded to 8 bits, sixteen with a scale
// (linear/int8.glsl): four products for one instruction. With weight = s · q + o and x ≈ t · p, over sixteen elements
//     Σ weight · x ≈ s · t · Σ q · p + o · t · Σ p      q, p integers of 8 bits
// x: [rows, in], weight: [out, in] as lib/dequantize.glsl says but not bfloat16, bias: [out], residual, y: [rows, out]; integer
// sums over sixteen, float32 beyond.
// One workgroup per tile of 64 rows × 64 columns of y; a slice is sixteen elements of the depth: 64 invocations fetch a column's
// weights each, the others round a row's activations. Invocation (i, j) of 16 × 8 owns columns i + 16c and rows 8j + r: 4 columns'
// vectors stay in registers for 8 rows, 12 vectors loaded for 512 multiplications.
// Shared memory: 2 slices · 64 · (16 + 8) bytes = 3 KiB. 16-byte vectors: neighbours' lie beside each other.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "linear/epilogue.glsl"
#include "lib/storage4.glsl"
#define WEIGHT_BINDING kLinearWeight
#define WEIGHT_FORMAT kLinearWeightFormat
#include "lib/dequantize.glsl"
#include "linear/int8.glsl"

layout(std430, binding = kLinearX) readonly buffer X { ELEMENT4 x[]; };

const uint LANES_ALONG_COLUMNS = 16;
const uint COLUMNS = kLinearTileColumns / LANES_ALONG_COLUMNS;                      // of an invocation
const uint ROWS = kLinearTileRows * LANES_ALONG_COLUMNS / kLinearTileWorkgroup;  // of an invocation
shared ivec4 x_slice[kLinearTileRows], weight_slice[kLinearTileColumns];
shared vec2 x_scale[kLinearTileRows], weight_scale[kLinearTileColumns];  // (t, t · Σ p), (s, o)

void store_x(uint row, uint sixteen, uint place) {
    vec4 value[4];
    [[unroll]] for (uint q = 0; q < 4; ++q) {
        value[q] = vec4(0.0);
        if (row < p.rows) value[q] = LOAD4(x, row * (p.in_width / 4) + sixteen * 4 + q);
    }
    const Int8Sixteen packed = to_int8(value);
    x_slice[place] = packed.q;
    x_scale[place] = vec2(packed.scale, packed.total);
}

void store_weights(uint column, uint sixteen, uint place) {
    const uint row_blocks = p.in_width / BLOCK_ELEMENTS;
    const Place at = place_of(weight_row_of(column, LANES_ALONG_COLUMNS) * row_blocks, sixteen, 0);
    const Stored16 stored = load16(at, p.out_width * row_blocks);
    weight_slice[place] = ivec4(quants16(stored, at));
    weight_scale[place] = scale16(stored, at);
}

void main() {
    const uint column_tiles = (p.out_width + kLinearTileColumns - 1) / kLinearTileColumns;
    const uint tile = linear_workgroup();
    const uint tile_row = tile / column_tiles * kLinearTileRows;
    const uint tile_column = tile % column_tiles * kLinearTileColumns;
    if (tile_row >= p.rows) return;  // the whole workgroup leaves
    const uint lane = gl_LocalInvocationIndex;
    const uint first_column = lane % LANES_ALONG_COLUMNS;
    const uint first_row = lane / LANES_ALONG_COLUMNS * ROWS;

    float sum[ROWS][COLUMNS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[r][c] = 0.0;

    for (uint sixteen = 0; sixteen < p.in_width / kLinearTileDepth; ++sixteen) {
        if (lane < kLinearTileColumns)
            store_weights(tile_column + lane, sixteen, lane);
        else
            store_x(tile_row + lane - kLinearTileColumns, sixteen, lane - kLinearTileColumns);
        barrier();
        ivec4 w[COLUMNS];
        vec2 scale[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            w[c] = weight_slice[first_column + c * LANES_ALONG_COLUMNS];
            scale[c] = weight_scale[first_column + c * LANES_ALONG_COLUMNS];
        }
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            const ivec4 value = x_slice[first_row + r];
            const vec2 of_row = x_scale[first_row + r];
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                sum[r][c] += of_row.x * scale[c].x * float(dot16(w[c], value));
                if (HAS_OFFSET) sum[r][c] += of_row.y * scale[c].y;
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
