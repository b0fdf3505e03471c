#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual, for Vulkan devices that are CPUs with subgroups of 8, many rows, and in a multiple of 8.
// x: [rows, in], weight: [out, in], bias: [out], residual, y: [rows, out]; storage as lib/storage.glsl says (residual and y:
// linear/epilogue.glsl), sums in float32.
// Both operands are gathered, in as few words (cpu_devices/lib/wide.glsl) as a tile of ROWS rows × 32 columns allows; cpu_devices/lib/shuffled.glsl has the products.
// Gain over cpu_devices/linear/columns.comp: docs/kernels.md.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "cpu_devices/linear/contract.h"
#include "linear/epilogue.glsl"
#define EVEN_COLUMNS
const uint COLUMNS = kCpuLinearShuffledColumns, DEPTH = kCpuLinearShuffledDepth;
#include "cpu_devices/lib/shuffled.glsl"

layout(std430, binding = kLinearWeight) readonly buffer Weight { WORD weight[]; };

void main() {
    const uint row_tiles = (p.rows + ROWS - 1) / ROWS;
    const uint tile = linear_workgroup();
    const uint first_column = tile / row_tiles * (LANES * COLUMNS), first_row = tile % row_tiles * ROWS;
    if (first_column >= p.out_width) return;

    uint weight_row[COLUMNS];
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
        weight_row[c] = (weight_before() + weight_row_of(column_of(first_column, c), TURN)) * (p.in_width / WORD_ELEMENTS);

    start_sums(first_row);
    for (uint step = 0; step < p.in_width / DEPTH; ++step) {
        float w[COLUMNS][DEPTH];
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            [[unroll]] for (uint i = 0; i < ROW_LANES; ++i) {
                const vec4 elements = word_elements(weight[weight_row[c] + step * ROW_LANES + i]);
                [[unroll]] for (uint e = 0; e < WORD_ELEMENTS; ++e) w[c][i * WORD_ELEMENTS + e] = elements[e];
            }
        }
        add_products(step, w);
    }
    finish_sums(first_row, first_column);
}
