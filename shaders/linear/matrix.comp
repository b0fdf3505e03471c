#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual on cooperative matrices (VK_KHR_cooperative_matrix), for in a multiple of 8: float16 products,
// float32 sums.
// x: float16 [rows, in], weight: float16 [out, in], bias: float16 [out], residual, y: [rows, out] (linear/epilogue.glsl).
// One workgroup per tile of TILE_ROWS × TILE_COLUMNS of y; its first ROW_GRID × COLUMN_GRID subgroups own STEPS · M rows × STEPS · N
// columns each, in matrices that stay in registers while tiles of x and weight pass through shared memory, 32 deep. The next tiles are fetched
// into registers while the present ones are multiplied, so that memory is waited for once per tile and not at every load.
// What lies behind the depth is staged as zeros; rows behind the last of x or weight repeat it and are not stored. Where an element of a matrix lies is the driver's secret, so the sums pass
// through the tiles' memory once more, M rows of each subgroup at a time, on their way through the epilogue. linear/split_depth.glsl says
// what a workgroup does with a part of the depth.
// PER_ELEMENT (VK_NV_cooperative_matrix2): the driver says where each element lies, so that it goes through the epilogue from its register,
// with neither that memory nor the barriers.
// QUANTIZED: weight as lib/dequantize.glsl says, in a multiple of 32. Its sixteens wait in registers as they are and become halves on
// their way into shared memory. Without F16, x is what linear/halve_rows.comp made of float32, and a row's sums are multiplied with its scale.
// Shared memory, 16 × 16 matrices, 4 × 4 steps: 20 KiB (2 × 2 subgroups) or 32 KiB (4 × 2).
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#ifdef PER_ELEMENT
#extension GL_NV_cooperative_matrix2 : require
#endif
#include "linear/epilogue.glsl"
#include "linear/split_depth.glsl"
#ifdef QUANTIZED
#define WEIGHT_BINDING kLinearWeight
#define WEIGHT_FORMAT kLinearWeightFormat
#define BIASED_Q8
#include "lib/dequantize.glsl"
#endif

layout(constant_id = kLinearM) const uint M = 16;
layout(constant_id = kLinearN) const uint N = 16;
layout(constant_id = kLinearK) const uint K = 16;
layout(constant_id = kLinearSteps) const uint STEPS = 4;
layout(constant_id = kLinearRowGrid) const uint ROW_GRID = 2;
layout(std430, binding = kLinearX) readonly buffer X { uvec4 x[]; };  // eight halves each
#if defined(QUANTIZED) && !defined(F16)
layout(std430, binding = kLinearRowScales) readonly buffer RowScales { float row_scales[]; };
float row_scale(uint row) { return row_scales[p.rows * p.in_width / 2 + row]; }
#else
float row_scale(uint row) { return 1.0; }
#endif

const uint COLUMN_GRID = kLinearMatrixColumnGrid;
const uint TILE_ROWS = ROW_GRID * STEPS * M;
const uint TILE_COLUMNS = COLUMN_GRID * STEPS * N;
const uint OCTETS = kLinearMatrixDepth / 8;  // of a tile's row
const uint PITCH = OCTETS + 1;               // 16 bytes more: neighbouring rows in different banks
const uint X_LOADS = (TILE_ROWS * OCTETS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;  // of an invocation

#ifdef PER_ELEMENT
const uint RESULTS = 0;
#else
const uint RESULTS = ROW_GRID * M * TILE_COLUMNS / 4;  // of M rows of every subgroup, [row, column], four floats each
#endif
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

// What was fetched from octet k on becomes the tiles: zeros from `end` on.
void put_tiles(uint k, uint end) {
    [[unroll]] for (uint i = 0; i < X_LOADS; ++i) {
        const uint e = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
        if (e < TILE_ROWS * OCTETS) tiles[e / OCTETS * PITCH + e % OCTETS] = k + e % OCTETS < end ? next_x[i] : uvec4(0);
    }
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; ++i) {
        const uint e = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x, octet = e % PIECES * PIECE_OCTETS;
        if (e < TILE_COLUMNS * PIECES) put_weight(e / PIECES * PITCH + octet, next_weight[i], k + octet < end);
    }
}

#ifdef PER_ELEMENT
float finish_element(const in uint row, const in uint column, const in float sum, const in uint first_row,
                     const in uint first_column) {
    if (first_row + row < p.rows && first_column + column < p.out_width)
        FINISH(first_row + row, first_column + column, sum * row_scale(first_row + row));
    return sum;
}

// Finishes two matrices side by side.
float finish_gated_element(const in uint row, const in uint column, const in float gate, const in float other,
                           const in uint first_row, const in uint first_column) {
    if (first_row + row < p.rows) {
        const float scale = row_scale(first_row + row);
        FINISH_GATED(first_row + row, first_column + column, N, gate * scale, other * scale);
    }
    return gate;
}
#else
float result_at(uint i) { return uintBitsToFloat(tiles[i / 4][i % 4]); }
#endif

#define SUMS coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>

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
    const uint subgroup_row = subgroup / COLUMN_GRID * STEPS * M;
    const uint subgroup_column = subgroup % COLUMN_GRID * STEPS * N;
    const uint octets = p.in_width / 8;
    const uvec2 part = steps_of_split((octets + OCTETS - 1) / OCTETS) * OCTETS;
    const uint end = min(part.y, octets);

    SUMS sums[STEPS][STEPS];
    [[unroll]] for (uint m = 0; m < STEPS; ++m)
        [[unroll]] for (uint n = 0; n < STEPS; ++n) sums[m][n] = SUMS(0.0);

    [[unroll]] for (uint i = 0; i < X_LOADS; ++i)
        x_row[i] = (x_before() + min(first_row + (lane + i * gl_WorkGroupSize.x) / OCTETS, p.rows - 1)) * octets;
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; ++i)
        weight_row[i] = weight_row_of(first_column + (lane + i * gl_WorkGroupSize.x) / PIECES, N);
    fetch(part.x);
    for (uint k = part.x; k < end; k += OCTETS) {
        barrier();  // the tiles may still be read
        put_tiles(k, end);
        barrier();
        fetch(k + OCTETS);
        [[unroll]] for (uint depth = 0; depth < kLinearMatrixDepth; depth += K) {
            coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> a[STEPS];
            [[unroll]] for (uint m = 0; m < STEPS; ++m)
                coopMatLoad(a[m], tiles, (subgroup_row + m * M) * PITCH + depth / 8, PITCH,
                            gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint n = 0; n < STEPS; ++n) {
                coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> b;
                coopMatLoad(b, tiles, WEIGHT_TILE + (subgroup_column + n * N) * PITCH + depth / 8, PITCH,
                            gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint m = 0; m < STEPS; ++m) sums[m][n] = coopMatMulAdd(a[m], b, sums[m][n]);
            }
        }
    }

#ifdef PER_ELEMENT
    if (!finishes) return;
    [[unroll]] for (uint m = 0; m < STEPS; ++m) {
        const uint row = first_row + subgroup_row + m * M, column = first_column + subgroup_column;
        if (END == kLinearEndGate) {
            [[unroll]] for (uint n = 0; n < STEPS; n += 2)
                coopMatPerElementNV(sums[m][n], sums[m][n], finish_gated_element, sums[m][n + 1], row, column + n * N);
        } else {
            [[unroll]] for (uint n = 0; n < STEPS; ++n)
                coopMatPerElementNV(sums[m][n], sums[m][n], finish_element, row, column + n * N);
        }
    }
#else
    // The epilogue is there once, and the sums are chosen by constants: a compiler that leaves this loop as it is would keep sums[m] of
    // a variable m in memory, during the products as well.
    [[dont_unroll]] for (uint m = 0; m < STEPS; ++m) {
        barrier();  // the tiles, or the results before, may still be read
        [[unroll]] for (uint i = 0; i < STEPS; ++i) {
            if (i != m || !finishes) continue;
            [[unroll]] for (uint n = 0; n < STEPS; ++n)
                coopMatStore(sums[i][n], tiles,
                             (subgroup / COLUMN_GRID * M * TILE_COLUMNS + subgroup_column + n * N) / 4, TILE_COLUMNS / 4,
                             gl_CooperativeMatrixLayoutRowMajor);
        }
        barrier();
        const uint per_row = END == kLinearEndGate ? TILE_COLUMNS / 2 : TILE_COLUMNS;  // results
        for (uint e = lane; e < ROW_GRID * M * per_row; e += gl_WorkGroupSize.x) {
            const uint r = e / per_row, c = e % per_row;
            const uint row = first_row + (r / M * STEPS + m) * M + r % M;
            if (row >= p.rows) continue;
            if (END == kLinearEndGate) {
                const uint column = c / N * 2 * N + c % N, at = r * TILE_COLUMNS + column;
                FINISH_GATED(row, first_column + column, N, result_at(at) * row_scale(row), result_at(at + N) * row_scale(row));
            } else if (first_column + c < p.out_width) {
                FINISH(row, first_column + c, result_at(e) * row_scale(row));
            }
        }
    }
#endif
}
