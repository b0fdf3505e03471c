#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual for weights in a format of their own, on Vulkan devices that are CPUs with subgroups of 8, many rows.
// x: [rows, in], weight: [out, in] as lib/dequantize.glsl says, bias: [out], residual, y: [rows, out]; sums in float32.
// As cpu_devices/linear/columns_shuffled.comp: 16 rows × 24 columns per subgroup, loads of 64 bits, x by broadcasts. Weights become floats in registers,
// once for all 16 rows.
// Gain over cpu_devices/linear/quantized_columns.comp: docs/kernels.md.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifndef VECTORS
#define WIDE
#endif
#include "cpu_devices/linear/contract.h"
#include "linear/epilogue.glsl"
#define WEIGHT_BINDING kLinearWeight
#define WEIGHT_FORMAT kLinearWeightFormat
#include "lib/dequantize.glsl"
#ifdef VECTORS
#define EVEN_COLUMNS
const uint COLUMNS = kCpuLinearShuffledColumns, DEPTH = kCpuLinearShuffledDepth;
#else
const uint COLUMNS = kCpuLinearWideGatedColumns, DEPTH = kCpuLinearWideDepth;
#define USED_COLUMNS (END == kLinearEndGate ? COLUMNS : kCpuLinearWideColumns)
#endif
#include "cpu_devices/lib/shuffled.glsl"

const uint PASSES = 16 / DEPTH;

void main() {
    const uint row_tiles = (p.rows + ROWS - 1) / ROWS;
    const uint tile = linear_workgroup();
    const uint first_column = tile / row_tiles * (LANES * USED_COLUMNS), first_row = tile % row_tiles * ROWS;
    if (first_column >= p.out_width) return;
    const uint row_blocks = p.in_width / BLOCK_ELEMENTS, blocks = row_blocks * p.out_width;

    uint weight_row[COLUMNS];
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
        weight_row[c] = weight_row_of(column_of(first_column, c), TURN) * row_blocks;

    start_sums(first_row);
    for (uint step = 0; step < p.in_width / 16; ++step) {
        float w[PASSES][COLUMNS][DEPTH];
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            if (c >= USED_COLUMNS) continue;  // decided when the pipeline is made
            const Place at = place_of(weight_row[c], step, 0);
            const Stored16 stored = load16(at, blocks);
            const Sixteen packed = unpack16(stored, at);
            const vec2 scale = scale16(stored, at);
            [[unroll]] for (uint q = 0; q < 4; ++q) {
                const vec4 four = fma(quad_of(packed, q), vec4(scale.x), vec4(scale.y));
                [[unroll]] for (uint e = 0; e < 4; ++e) w[q * 4 / DEPTH][c][q * 4 % DEPTH + e] = four[e];
            }
        }
        [[unroll]] for (uint pass = 0; pass < PASSES; ++pass) add_products(step * PASSES + pass, w[pass]);
    }
    finish_sums(first_row, first_column);
}
