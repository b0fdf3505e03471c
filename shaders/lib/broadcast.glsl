// SPDX-License-Identifier: MIT
// What linear_broadcast.comp and linear_quantized_broadcast.comp have in common. A workgroup is one subgroup of kBroadcastLanes lanes and
// owns ROWS rows × kBroadcastLanes · COLUMNS columns of y, as sums in registers (or on the stack, which on a CPU is the next best
// thing). Of x every element is loaded once per workgroup, by one lane, and reaches the others as a broadcast; of the weights a lane
// loads those of its own columns, for all rows. With VECTORS x is loaded by vectors, not gathered. DEPTH elements of the depth are taken at a time.
// The broadcasts are shuffles from lanes that are known when the pipeline is made: a broadcast would need them known when GLSL is compiled.
// x: [rows, in], in a multiple of DEPTH, as words (lib/wide.glsl). Declare COLUMNS and DEPTH, and include lib/linear.glsl, before.
#ifndef VKFORMER_BROADCAST_GLSL
#define VKFORMER_BROADCAST_GLSL
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "lib/wide.glsl"
#ifdef VECTORS
#include "lib/vectors.glsl"
#endif

layout(constant_id = kLinearRowsConstant) const uint ROWS = 4;  // a multiple of 4
#ifndef VECTORS
layout(std430, binding = kLinearX) readonly buffer X { WORD x[]; };
#endif

const uint LANES = kBroadcastLanes;
const uint ROW_LANES = DEPTH / WORD_ELEMENTS;  // lanes that hold DEPTH elements of a row; the lanes behind them hold the next row's
const uint LOAD_ROWS = LANES / ROW_LANES, LOADS = ROWS / LOAD_ROWS;

#ifdef VECTORS
uint64_t x_row[ROWS];  // address of its start
#else
uint x_word[LOADS];  // of this lane, at the start of its row
#endif
float sum[ROWS][COLUMNS];

// Rows past the last repeat it: their sums are not stored.
void start_sums(uint first_row) {
#ifdef VECTORS
    [[unroll]] for (uint r = 0; r < ROWS; ++r)
        x_row[r] = x_address + uint64_t((x_before() + min(first_row + r, p.rows - 1)) * (p.in_width / WORD_ELEMENTS)) * 4;
#else
    const uint lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint i = 0; i < LOADS; ++i)
        x_word[i] = (x_before() + min(first_row + i * LOAD_ROWS + lane / ROW_LANES, p.rows - 1)) * (p.in_width / WORD_ELEMENTS) +
                    lane % ROW_LANES;
#endif
    [[unroll]] for (uint r = 0; r < ROWS; ++r)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[r][c] = 0.0;
}

// Words of LOAD_ROWS rows, the first of which has the number r in the tile: elements step · DEPTH ….
vec4 elements_of(uint r, uint step) {
#ifdef VECTORS
    // a step past the last one is none of ours, but its address must be
    const uint64_t at = uint64_t(min(step, p.in_width / DEPTH - 1) * ROW_LANES) * 4;
    const uint64_t low = x_row[r] + at, high = LOAD_ROWS == 2 ? x_row[r + LOAD_ROWS - 1] + at : low + 16;
#ifdef F16
    return word_elements(word_vector(low, high));
#else
    return word_elements(float_vector(low, high));
#endif
#else
    return word_elements(x[x_word[r / LOAD_ROWS] + step * ROW_LANES]);
#endif
}

// Adds the products of elements step · DEPTH … of all rows with `w`, this lane's columns of them. A row's sums are worked on in an array
// of their own: Mesa's compiler takes time quadratic in the accesses to an array whose indices it does not know yet.
void add_products(uint step, float w[COLUMNS][DEPTH]) {
#if defined(VECTORS) && !defined(F16)
    const uint64_t at = uint64_t(min(step, p.in_width / DEPTH - 1) * DEPTH) * 4;
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        float own[COLUMNS] = sum[r];
        const uint64_t from = x_row[r] + at;
        [[unroll]] for (uint k = 0; k < DEPTH; ++k) {
            const float value = OneFloat(from + k * 4).v;
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) own[c] = fma(value, w[c][k], own[c]);
        }
        sum[r] = own;
    }
#else
    [[unroll]] for (uint first = 0; first < ROWS; first += LOAD_ROWS) {
        const vec4 elements = elements_of(first, step);
        [[unroll]] for (uint r = 0; r < LOAD_ROWS; ++r) {
            float own[COLUMNS] = sum[first + r];
            [[unroll]] for (uint k = 0; k < DEPTH; ++k) {
                const float value = subgroupShuffle(elements[k % WORD_ELEMENTS], r * ROW_LANES + k / WORD_ELEMENTS);
                [[unroll]] for (uint c = 0; c < COLUMNS; ++c) own[c] = fma(value, w[c][k], own[c]);
            }
            sum[first + r] = own;
        }
    }
#endif
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
