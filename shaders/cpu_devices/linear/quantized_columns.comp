#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual for weights in a format of their own, on Vulkan devices that are CPUs.
// x: [rows, in], weight: [out, in] as lib/dequantize.glsl says, bias: [out], residual, y: [rows, out]; sums in float32.
// As cpu_devices/linear/columns.comp: no shared memory; one workgroup per ROWS ≤ 8 rows × 4 · gl_WorkGroupSize.x columns; an invocation owns
// all these rows and 4 columns, a workgroup's size apart; x is read from one address by all. Weights become floats in registers,
// once for all rows. EXPERTS: as there.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "cpu_devices/linear/contract.h"
#ifdef EXPERTS
#include "expert_linear/product.glsl"
#else
#include "linear/epilogue.glsl"
#endif
#include "lib/storage4.glsl"
#define WEIGHT_BINDING kLinearWeight
#define WEIGHT_FORMAT kLinearWeightFormat
#include "lib/dequantize.glsl"

layout(constant_id = kLinearRows) const uint ROWS = 1;
layout(std430, binding = kLinearX) readonly buffer X { ELEMENT4 x[]; };

const uint COLUMNS = kCpuLinearLaneColumns;

void main() {
    const uint tile_columns = gl_WorkGroupSize.x * COLUMNS;
    const uint column_tiles = (p.out_width + tile_columns - 1) / tile_columns;
    const uint tile = linear_workgroup();
    const uvec2 rows = rows_of_tile(tile / column_tiles, ROWS);
    if (rows.x >= rows.y) return;
    const uint first_column = tile % column_tiles * tile_columns + gl_LocalInvocationIndex;
    const uint row_blocks = p.in_width / BLOCK_ELEMENTS, blocks = row_blocks * packed_rows();

    // Rows and columns past the last repeat it: their sums are not stored.
    uint x_row[kLinearMaxRows], weight_row[COLUMNS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) x_row[r] = row_of_x(min(rows.x + r, rows.y - 1)) * (p.in_width / 4);
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
        weight_row[c] = (packed_before() + weight_row_of(first_column + c * gl_WorkGroupSize.x, gl_WorkGroupSize.x)) * row_blocks;

    float sum[kLinearMaxRows][COLUMNS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[r][c] = 0.0;

    for (uint k = 0; k < row_blocks * BLOCK_CHUNKS; ++k) {
        const uint block = k / BLOCK_CHUNKS, chunk = k % BLOCK_CHUNKS;
        [[unroll]] for (uint i = 0; i < CHUNK_SIXTEENS; ++i) {
            Sixteen packed[COLUMNS];
            vec2 scale[COLUMNS];
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                const Place at = Place(weight_row[c] + block, chunk, i, 0);
                const Stored16 stored = load16(at, blocks);
                packed[c] = unpack16(stored, at);
                scale[c] = scale16(stored, at);
            }
            const uint quad = k * (CHUNK_ELEMENTS / 4) + i * 4;
            [[unroll]] for (uint q = 0; q < 4; ++q) {
                vec4 w[COLUMNS];
                [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
                    w[c] = fma(quad_of(packed[c], q), vec4(scale[c].x), vec4(scale[c].y));
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    const vec4 value = LOAD4(x, x_row[r] + quad + q);
                    [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
                        sum[r][c] = add_product(value, w[c], sum[r][c]);
                }
            }
        }
    }

    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const uint row = rows.x + r;
        if (row >= rows.y) continue;
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
            FINISH_COLUMN(row, first_column, gl_WorkGroupSize.x, c, sum[r])
    }
}
