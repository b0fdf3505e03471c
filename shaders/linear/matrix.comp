#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual on cooperative matrices (VK_KHR_cooperative_matrix), for in a multiple of 8: float16 products,
// float32 sums.
// x: float16 [rows, in], weight: float16 [out, in], bias: float16 [out], residual, y: [rows, out] (linear/epilogue.glsl).
// One workgroup per tile of TILE_ROWS × TILE_COLUMNS of y; its first ROW_GRID × COLUMN_GRID subgroups own ROW_STEPS · M rows ×
// COLUMN_STEPS · N columns each, in matrices that stay in registers while slices of x and weight pass through shared memory, DEPTH deep. The
// next slices are fetched into registers while the present ones are multiplied, so that memory is waited for once per slice and not at every
// load. With AHEAD the operands of the next step are loaded from shared memory while those of the present one are multiplied, across the
// barriers too, which takes as many registers again for them.
// What lies behind the depth is staged as zeros; rows behind the last of x or weight repeat it and are not stored. Where an element of a
// matrix lies is the driver's secret, so the sums pass through the slices' memory once more, M rows of each subgroup at a time, on their way
// through the epilogue. linear/split_depth.glsl says what a workgroup does with a part of the depth.
// QUANTIZED: weight as lib/dequantize.glsl says, in a multiple of 32. Its sixteens wait in registers as they are and become halves on
// their way into shared memory. Without F16, x is what linear/halve_rows.comp made of float32, and a row's sums are multiplied with its scale.
// What a slice costs a core's shared memory decides how fast this is (docs/kernels.md): larger tiles and whole lines of 128 bytes cost less.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#include "linear/epilogue.glsl"
#include "linear/split_depth.glsl"
#if defined(F16) && !defined(TO_F32)
#define OCTETS_OF_Y
#include "linear/octets.glsl"
#endif
#ifdef QUANTIZED
#define WEIGHT_BINDING kLinearWeight
#define WEIGHT_FORMAT kLinearWeightFormat
#define BIASED_Q8
#include "lib/dequantize.glsl"
#endif

layout(constant_id = kLinearM) const uint M = 16;
layout(constant_id = kLinearN) const uint N = 16;
layout(constant_id = kLinearK) const uint K = 16;
layout(constant_id = kLinearRowSteps) const uint ROW_STEPS = 4;
layout(constant_id = kLinearColumnSteps) const uint COLUMN_STEPS = 4;
layout(constant_id = kLinearRowGrid) const uint ROW_GRID = 2;
layout(constant_id = kLinearColumnGrid) const uint COLUMN_GRID = 2;
layout(constant_id = kLinearSliceDepth) const uint DEPTH = 32;
layout(constant_id = kLinearAhead) const uint AHEAD = 0;
layout(std430, binding = kLinearX) readonly buffer X { uvec4 x[]; };  // eight halves each
#if defined(QUANTIZED) && !defined(F16)
layout(std430, binding = kLinearRowScales) readonly buffer RowScales { float row_scales[]; };
float row_scale(uint row) { return row_scales[p.rows * p.in_width / 2 + row]; }
#else
float row_scale(uint row) { return 1.0; }
#endif

const uint TILE_ROWS = ROW_GRID * ROW_STEPS * M;
const uint TILE_COLUMNS = COLUMN_GRID * COLUMN_STEPS * N;
const uint OCTETS = DEPTH / 8;  // of a slice's row
const uint PITCH = OCTETS + 1;  // 16 bytes more: neighbouring rows in different banks
const uint STEPS = DEPTH / K;   // of a slice
const uint X_LOADS = (TILE_ROWS * OCTETS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;  // of an invocation

const uint RESULTS = ROW_GRID * M * TILE_COLUMNS / 4;  // of M rows of every subgroup, [row, column], four floats each
const uint WEIGHT_TILE = TILE_ROWS * PITCH;  // behind that of x, [row, depth]: [column, depth]
const uint TILES = WEIGHT_TILE + TILE_COLUMNS * PITCH;
shared uvec4 tiles[TILES > RESULTS ? TILES : RESULTS];  // and then the results

// A weight's tile comes in pieces of PIECE_OCTETS octets.
#ifdef QUANTIZED
struct Piece {
    Sixteen packed;
    vec2 scale;  // and offset
};
const uint PIECE_OCTETS = 2;

Piece load_weight(uint column, uint octet) {
    const uint row_blocks = p.in_width / BLOCK_ELEMENTS;
    const Place at = place_of(column * row_blocks, octet / PIECE_OCTETS, 0);
    const Stored16 stored = load16(at, p.out_width * row_blocks);
    return Piece(unpack16(stored, at), scale16(stored, at));
}

void put_weight(uint at, Piece piece, bool is_inside) {
    [[unroll]] for (uint i = 0; i < PIECE_OCTETS; ++i) {
        const vec4 a = piece.scale.x * quad_of(piece.packed, 2 * i) + piece.scale.y;
        const vec4 b = piece.scale.x * quad_of(piece.packed, 2 * i + 1) + piece.scale.y;
        const uvec4 halves = uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
        tiles[WEIGHT_TILE + at + i] = is_inside ? halves : uvec4(0);
    }
}
#else
layout(std430, binding = kLinearWeight) readonly buffer Weight { uvec4 weight[]; };
#define Piece uvec4
const uint PIECE_OCTETS = 1;

Piece load_weight(uint column, uint octet) { return weight[(weight_before() + column) * (p.in_width / 8) + octet]; }
void put_weight(uint at, Piece piece, bool is_inside) { tiles[WEIGHT_TILE + at] = is_inside ? piece : uvec4(0); }
#endif
const uint PIECES = OCTETS / PIECE_OCTETS;  // of a column
const uint WEIGHT_LOADS = (TILE_COLUMNS * PIECES + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;  // of an invocation

// An invocation's parts of the next tiles, as they are stored, and the rows of x (their first octets) and of the weight that they are of.
uvec4 next_x[X_LOADS];
Piece next_weight[WEIGHT_LOADS];
uint x_row[X_LOADS], weight_row[WEIGHT_LOADS];

// The row of a slice that piece `e` of it belongs to, `pieces` to a row. Eight neighbouring invocations store at a time: of rows that are four
// octets long two, of whose octets PITCH puts none into the same banks if they lie four rows apart; or a half of four, which are two times two.
uint row_of_piece(uint e, uint pieces) {
    if (OCTETS == 4 && pieces == 4) return e / 32 * 8 + e / 4 % 2 * 4 + e / 8 % 4;
    if (OCTETS == 4 && pieces == 2) return e / 16 * 8 + e / 4 % 2 * 4 + e / 8 % 2 * 2 + e / 2 % 2;
    return e / pieces;
}

// From octet k on. Without a branch, behind which a compiler would wait for what is loaded: past the last row or octet that one again.
void fetch(uint k) {
    const uint octets = p.in_width / 8;
    [[unroll]] for (uint i = 0; i < X_LOADS; ++i) {
        const uint e = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
        next_x[i] = x[x_row[i] + min(k + e % OCTETS, octets - 1)];
    }
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; ++i) {
        const uint e = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
        next_weight[i] = load_weight(weight_row[i], min(k + e % PIECES * PIECE_OCTETS, octets - PIECE_OCTETS));
    }
}

// Weights in a format of their own are a multiple of 32 deep.
#ifdef QUANTIZED
const bool ARE_WHOLE = DEPTH == 32;
#else
const bool ARE_WHOLE = false;
#endif

// What was fetched from octet k on becomes the slices. What is not `whole` has zeros from `end` on.
#define IS_PIECE(e, pieces) ((pieces) % gl_WorkGroupSize.x == 0 || (e) < (pieces))
void put_slices(uint k, uint end, bool whole) {
    [[unroll]] for (uint i = 0; i < X_LOADS; ++i) {
        const uint e = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
        if (IS_PIECE(e, TILE_ROWS * OCTETS))
            tiles[row_of_piece(e, OCTETS) * PITCH + e % OCTETS] = whole || k + e % OCTETS < end ? next_x[i] : uvec4(0);
    }
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; ++i) {
        const uint e = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x, octet = e % PIECES * PIECE_OCTETS;
        if (IS_PIECE(e, TILE_COLUMNS * PIECES))
            put_weight(row_of_piece(e, PIECES) * PITCH + octet, next_weight[i], whole || k + octet < end);
    }
}

void put_slices(uint k, uint end) {
    if (ARE_WHOLE || k + OCTETS <= end)
        put_slices(k, end, true);
    else
        put_slices(k, end, false);
}

float result_at(uint i) { return uintBitsToFloat(tiles[i / 4][i % 4]); }

#ifdef OCTETS_OF_Y
vec2[4] results_at(uint i, float scale) {
    const vec4 low = scale * uintBitsToFloat(tiles[i / 4]), high = scale * uintBitsToFloat(tiles[i / 4 + 1]);
    return vec2[4](low.xy, low.zw, high.xy, high.zw);
}
#endif

// What becomes of M rows of each subgroup, those of its step m.
void finish_results(uint m, uint first_row, uint first_column) {
    const bool is_gated = END == kLinearEndGate;
    const uint per_row = is_gated ? TILE_COLUMNS / 2 : TILE_COLUMNS;  // of y
#ifdef OCTETS_OF_Y
    if (has_octets()) {
        const uint octets = ROW_GRID * M * per_row / 8;
        [[unroll]] for (uint i = 0; i < (octets + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x; ++i) {
            const uint e = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
            const uint r = e / (per_row / 8), c = e % (per_row / 8) * 8, row = first_row + (r / M * ROW_STEPS + m) * M + r % M;
            const uint turned = is_gated ? c / N * 2 * N + c % N : c, at = r * TILE_COLUMNS + turned;
            const uint column = is_gated ? gated_column(first_column + turned, N) : first_column + c;
            if (!IS_PIECE(e, octets) || row >= p.rows || column >= (is_gated ? p.out_width / 2 : p.out_width)) continue;
            const float scale = row_scale(row);
            finish_octet(row, column, results_at(at, scale), results_at(is_gated ? at + N : at, scale));
        }
        return;
    }
#endif
    for (uint e = gl_LocalInvocationIndex; e < ROW_GRID * M * per_row; e += gl_WorkGroupSize.x) {
        const uint r = e / per_row, c = e % per_row, row = first_row + (r / M * ROW_STEPS + m) * M + r % M;
        if (row >= p.rows) continue;
        if (is_gated) {
            const uint column = c / N * 2 * N + c % N, at = r * TILE_COLUMNS + column;
            FINISH_GATED(row, first_column + column, N, result_at(at) * row_scale(row), result_at(at + N) * row_scale(row));
        } else if (first_column + c < p.out_width) {
            FINISH(row, first_column + c, result_at(e) * row_scale(row));
        }
    }
}

#define LEFT coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA>
#define RIGHT coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB>
#define SUMS coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>

// The operands of step `step` of the slice, those of both parities in turn.
#define LOAD_STEP(step)                                                                                            \
    [[unroll]] for (uint m = 0; m < ROW_STEPS; ++m)                                                                \
        coopMatLoad(a[(step) % 2][m], tiles, (subgroup_row + m * M) * PITCH + (step) * (K / 8), PITCH,             \
                    gl_CooperativeMatrixLayoutRowMajor);                                                           \
    [[unroll]] for (uint n = 0; n < COLUMN_STEPS; ++n)                                                             \
        coopMatLoad(b[(step) % 2][n], tiles, WEIGHT_TILE + (subgroup_column + n * N) * PITCH + (step) * (K / 8),   \
                    PITCH, gl_CooperativeMatrixLayoutColumnMajor);

void main() {
    const uint row_tiles = (p.rows + TILE_ROWS - 1) / TILE_ROWS;
    const uint tile = split_workgroup();
    const uint first_row = tile % row_tiles * TILE_ROWS;  // neighbouring workgroups share the weights
    const uint first_column = tile / row_tiles * TILE_COLUMNS;
    if (first_column >= p.out_width) return;  // the whole workgroup leaves

    const uint lane = gl_LocalInvocationIndex;
    // A driver with smaller subgroups than it said has more of them: what they multiply is not used.
    const uint subgroup = gl_SubgroupID % (ROW_GRID * COLUMN_GRID);
    const bool finishes = gl_SubgroupID == subgroup;
    const uint subgroup_row = subgroup / COLUMN_GRID * ROW_STEPS * M;
    const uint subgroup_column = subgroup % COLUMN_GRID * COLUMN_STEPS * N;
    const uint octets = p.in_width / 8;
    const uvec2 part = steps_of_split((octets + OCTETS - 1) / OCTETS) * OCTETS;
    const uint end = min(part.y, octets);

    SUMS sums[ROW_STEPS][COLUMN_STEPS];
    [[unroll]] for (uint m = 0; m < ROW_STEPS; ++m)
        [[unroll]] for (uint n = 0; n < COLUMN_STEPS; ++n) sums[m][n] = SUMS(0.0);

    [[unroll]] for (uint i = 0; i < X_LOADS; ++i)
        x_row[i] =
            (x_before() + min(first_row + row_of_piece(lane + i * gl_WorkGroupSize.x, OCTETS), p.rows - 1)) * octets;
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; ++i)
        weight_row[i] = weight_row_of(first_column + row_of_piece(lane + i * gl_WorkGroupSize.x, PIECES), N);
    LEFT a[2][ROW_STEPS];
    RIGHT b[2][COLUMN_STEPS];
    fetch(part.x);
    if (AHEAD != 0) {
        put_slices(part.x, end);
        barrier();
        LOAD_STEP(0)
        fetch(part.x + OCTETS);
    }
    for (uint k = part.x; k < end; k += OCTETS) {
        if (AHEAD == 0) {
            barrier();  // the slices may still be read
            put_slices(k, end);
            barrier();
            fetch(k + OCTETS);
        }
        [[unroll]] for (uint step = 0; step < STEPS; ++step) {
            if (AHEAD == 0) {
                LOAD_STEP(step)
            } else if (step + 1 < STEPS) {
                LOAD_STEP(step + 1)
            } else {
                barrier();  // all have loaded what they multiply
                put_slices(k + OCTETS, end);
                barrier();
                LOAD_STEP(0)
                fetch(k + 2 * OCTETS);
            }
            [[unroll]] for (uint n = 0; n < COLUMN_STEPS; ++n)
                [[unroll]] for (uint m = 0; m < ROW_STEPS; ++m)
                    sums[m][n] = coopMatMulAdd(a[step % 2][m], b[step % 2][n], sums[m][n]);
        }
    }

    // The epilogue is there once, and the sums are chosen by constants: a compiler that leaves this loop as it is would keep sums[m] of
    // a variable m in memory, during the products as well.
    [[dont_unroll]] for (uint m = 0; m < ROW_STEPS; ++m) {
        barrier();  // the tiles, or the results before, may still be read
        [[unroll]] for (uint i = 0; i < ROW_STEPS; ++i) {
            if (i != m || !finishes) continue;
            [[unroll]] for (uint n = 0; n < COLUMN_STEPS; ++n)
                coopMatStore(sums[i][n], tiles,
                             (subgroup / COLUMN_GRID * M * TILE_COLUMNS + subgroup_column + n * N) / 4, TILE_COLUMNS / 4,
                             gl_CooperativeMatrixLayoutRowMajor);
        }
        barrier();
        finish_results(m, first_row, first_column);
    }
}
