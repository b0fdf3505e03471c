// SPDX-License-Identifier: MIT
// What cpu_devices/linear/columns_shuffled.comp and cpu_devices/linear/quantized_columns_shuffled.comp have in common. A workgroup is one subgroup of kCpuLanes lanes and
// owns ROWS rows × kCpuLanes · COLUMNS columns of y, as sums in registers (or on the stack, which on a CPU is the next best
// thing). Of x every element is loaded once per workgroup, by one lane, and reaches the others as a broadcast; of the weights a lane
// loads those of its own columns, for all rows. With VECTORS x is loaded by vectors, not gathered. DEPTH elements of the depth are taken at a time.
// The broadcasts are shuffles from lanes that are known when the pipeline is made: a broadcast would need them known when GLSL is compiled.
// USED_COLUMNS: those of COLUMNS that a pipeline uses, if not all.
// Where y has halves and COLUMNS is even, a lane's columns are pairs of neighbours, which are words of y.
// x: [rows, in], in a multiple of DEPTH, as words (cpu_devices/lib/wide.glsl). Declare COLUMNS and DEPTH, and include linear/epilogue.glsl, before.
#ifndef VKFORMER_SHUFFLED_GLSL
#define VKFORMER_SHUFFLED_GLSL
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "cpu_devices/lib/wide.glsl"
#ifdef VECTORS
#include "cpu_devices/lib/vectors.glsl"
#endif
#if defined(F16) && !defined(TO_F32) && defined(EVEN_COLUMNS)
#define PAIRS
#include "lib/halves.glsl"
layout(std430, binding = kLinearResidual) readonly buffer ResidualWords { uint residual_words[]; };  // the same memory as `residual`
layout(std430, binding = kLinearY) writeonly buffer YWords { uint y_words[]; };
#endif

#ifndef USED_COLUMNS
#define USED_COLUMNS COLUMNS
#endif

layout(constant_id = kLinearRows) const uint ROWS = 4;  // a multiple of 4
#ifndef VECTORS
layout(std430, binding = kLinearX) readonly buffer X { WORD x[]; };
#endif

const uint LANES = kCpuLanes;
const uint ROW_LANES = DEPTH / WORD_ELEMENTS;  // lanes that hold DEPTH elements of a row; the lanes behind them hold the next row's
const uint LOAD_ROWS = LANES / ROW_LANES, LOADS = ROWS / LOAD_ROWS;

// With a gate: so many columns of the gate lie side by side, and as many of the other half.
#ifdef PAIRS
const uint TURN = 2 * LANES;
#else
const uint TURN = LANES;
#endif

// This lane's column c of those that start at `first`.
uint column_of(uint first, uint c) {
    const uint lane = gl_SubgroupInvocationID;
#ifdef PAIRS
    return first + (c / 2 * LANES + lane) * 2 + c % 2;
#else
    return first + c * LANES + lane;
#endif
}

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
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
                if (c < USED_COLUMNS) own[c] = fma(value, w[c][k], own[c]);
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
                [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
                    if (c < USED_COLUMNS) own[c] = fma(value, w[c][k], own[c]);
            }
            sum[first + r] = own;
        }
    }
#endif
}

#ifdef PAIRS
// finish() for two neighbours of an even width.
void finish_pair(uint row, uint column, vec2 sums, vec2 biases) {
    const uint i = ((workgroup_plane() * p.rows + row) * p.out_width + column) / 2;
    if (HAS_BIAS == 1) sums += biases;
    sums = vec2(activated(ACTIVATION, sums.x), activated(ACTIVATION, sums.y));
    if (END == kLinearEndResidual) sums += unpackHalf2x16(residual_words[i]);
    y_words[i] = rounded_halves(sums);
}

// finish_gated() for two neighbours of an even width.
void finish_gated_pair(uint row, uint at, vec2 gates, vec2 others, vec2 gate_biases, vec2 other_biases) {
    if (HAS_BIAS == 1) {
        gates += gate_biases;
        others += other_biases;
    }
    const vec2 result = vec2(activated(ACTIVATION, gates.x), activated(ACTIVATION, gates.y)) * others;
    y_words[(row * (p.out_width / 2) + at) / 2] = rounded_halves(result);
}

vec2 two_biases(uint column) { return HAS_BIAS == 1 ? vec2(LOAD(bias, column), LOAD(bias, column + 1)) : vec2(0.0); }

void finish_gated_sums(uint first_row, uint first_column) {
    const uint half_width = p.out_width / 2;
    if (half_width % 2 == 1) {
        const uint count = min(p.rows, 1) * ROWS * (COLUMNS / 2);  // as below
        for (uint i = 0; i < count; ++i) {
            vec2 own = vec2(0.0);
            [[unroll]] for (uint r = 0; r < ROWS; ++r)
                [[unroll]] for (uint c = 0; c < COLUMNS / 2; ++c)
                    own = i == r * (COLUMNS / 2) + c ? vec2(sum[r][c / 2 * 4 + c % 2], sum[r][c / 2 * 4 + c % 2 + 2]) : own;
            const uint row = first_row + i / (COLUMNS / 2), c = i % (COLUMNS / 2);
            if (row < p.rows) finish_gated(row, column_of(first_column, c / 2 * 4 + c % 2), TURN, own.x, own.y);
        }
        return;
    }
    [[unroll]] for (uint c = 0; c < COLUMNS; c += 4) {
        const uint column = column_of(first_column, c), at = column / (2 * TURN) * TURN + column % TURN;
        const uint clamped = min(at, half_width - 2);
        const vec2 gate_biases = two_biases(clamped), other_biases = two_biases(half_width + clamped);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            if (first_row + r < p.rows && at < half_width)
                finish_gated_pair(first_row + r, at, vec2(sum[r][c], sum[r][c + 1]), vec2(sum[r][c + 2], sum[r][c + 3]),
                                  gate_biases, other_biases);
        }
    }
}

void finish_sums(uint first_row, uint first_column) {
    if (END == kLinearEndGate) {
        finish_gated_sums(first_row, first_column);
        return;
    }
    if (p.out_width % 2 == 1) {
        // One after the other, the compiler having enough to do; `count` is no constant, so that it does not unroll them.
        const uint count = min(p.rows, 1) * ROWS * COLUMNS;
        for (uint i = 0; i < count; ++i) {
            float own = 0.0;
            [[unroll]] for (uint r = 0; r < ROWS; ++r)
                [[unroll]] for (uint c = 0; c < COLUMNS; ++c) own = i == r * COLUMNS + c ? sum[r][c] : own;
            const uint row = first_row + i / COLUMNS, column = column_of(first_column, i % COLUMNS);
            if (row < p.rows && column < p.out_width) finish(row, column, own);
        }
        return;
    }
    vec2 biases[COLUMNS / 2];
    [[unroll]] for (uint c = 0; c < COLUMNS / 2; ++c) {
        biases[c] = two_biases(min(column_of(first_column, 2 * c), p.out_width - 2));
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        [[unroll]] for (uint c = 0; c < COLUMNS; c += 2) {
            const uint row = first_row + r, column = column_of(first_column, c);
            if (row < p.rows && column < p.out_width) finish_pair(row, column, vec2(sum[r][c], sum[r][c + 1]), biases[c / 2]);
        }
    }
}
#else
void finish_sums(uint first_row, uint first_column) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const uint row = first_row + r;
        if (row >= p.rows) continue;
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            if (c >= USED_COLUMNS) continue;
            FINISH_COLUMN(row, first_column + gl_SubgroupInvocationID, LANES, c, sum[r])
        }
    }
}
#endif
#endif
