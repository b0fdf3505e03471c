// SPDX-License-Identifier: MIT
// What linear_broadcast.comp and linear_quantized_broadcast.comp have in common. A workgroup is one subgroup of kBroadcastLanes lanes and
// owns ROWS rows × kBroadcastLanes · COLUMNS columns of y, as sums in registers (or on the stack, which on a CPU is the next best
// thing). Of x every element is loaded once per workgroup, by one lane, and reaches the others as a broadcast; of the weights a lane
// loads those of its own columns, for all rows. DEPTH elements of the depth are taken at a time.
// The broadcasts are shuffles from lanes that are known when the pipeline is made: a broadcast would need them known when GLSL is compiled.
// x: [rows, in], in a multiple of DEPTH, as words (lib/wide.glsl). Declare COLUMNS and DEPTH, and include lib/linear.glsl, before.
#ifndef VKFORMER_BROADCAST_GLSL
#define VKFORMER_BROADCAST_GLSL
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "lib/wide.glsl"

layout(constant_id = kLinearRowsConstant) const uint ROWS = 4;  // a multiple of 4
layout(std430, binding = kLinearX) readonly buffer X { WORD x[]; };

const uint LANES = kBroadcastLanes;
const uint ROW_LANES = DEPTH / WORD_ELEMENTS;  // lanes that hold DEPTH elements of a row; the lanes behind them hold the next row's
const uint LOAD_ROWS = LANES / ROW_LANES, LOADS = ROWS / LOAD_ROWS;
const uint STEP_ROWS = 4;  // rows · COLUMNS sums that are worked on at a time: with an operand or two, what 16 registers hold

uint x_word[LOADS];  // of this lane, at the start of its row
float sum[ROWS][COLUMNS];

// Rows past the last repeat it: their sums are not stored.
void start_sums(uint first_row) {
    const uint lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint i = 0; i < LOADS; ++i)
        x_word[i] = (x_before() + min(first_row + i * LOAD_ROWS + lane / ROW_LANES, p.rows - 1)) * (p.in_width / WORD_ELEMENTS) +
                    lane % ROW_LANES;
    [[unroll]] for (uint r = 0; r < ROWS; ++r)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[r][c] = 0.0;
}

// Adds the products of elements step · DEPTH … of all rows with `w`, this lane's columns of them.
void add_products(uint step, float w[COLUMNS][DEPTH]) {
    [[unroll]] for (uint first = 0; first < ROWS; first += STEP_ROWS) {
        vec4 elements[STEP_ROWS / LOAD_ROWS];
        [[unroll]] for (uint i = 0; i < STEP_ROWS / LOAD_ROWS; ++i)
            elements[i] = word_elements(x[x_word[first / LOAD_ROWS + i] + step * ROW_LANES]);
        [[unroll]] for (uint k = 0; k < DEPTH; ++k) {
            [[unroll]] for (uint r = 0; r < STEP_ROWS; ++r) {
                const float value = subgroupShuffle(elements[r / LOAD_ROWS][k % WORD_ELEMENTS],
                                                      r % LOAD_ROWS * ROW_LANES + k / WORD_ELEMENTS);
                [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[first + r][c] = fma(value, w[c][k], sum[first + r][c]);
            }
        }
    }
}

void finish_sums(uint first_row, uint first_column) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            const uint row = first_row + r, column = first_column + c * LANES;
            if (row < p.rows && column < p.out_width) finish(row, column, sum[r][c]);
        }
    }
}
#endif
