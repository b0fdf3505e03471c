#version 460
// SPDX-License-Identifier: MIT
// attention/matrix.comp's formula, operands and rounding, on drivers that say where an element of a cooperative matrix lies
// (VK_NV_cooperative_matrix2). Its rows, too: a workgroup owns ROWS = SUBGROUPS · M rows of one key head, each of its first SUBGROUPS
// subgroups M of them. Tiles of keys and values pass through shared memory, both at a time, and the next come from memory while they are
// multiplied; scores, weights, maxima and sums never leave the matrices of their subgroup. The maximum of a row stands in all N elements of
// a row of a matrix, and so does the sum of its weights, which is their product with a matrix of ones. What are scores become weights,
// operands of the next product, so N = K.
// Values that are not finite are staged as zeros, and what they would have given replaces the result at the end.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_NV_cooperative_matrix2 : require
#define Y_MEMORY workgroupcoherent
#include "attention/matrix.glsl"

// The host counts these bytes too (matrices.cpp). Sizes 16 × 16 × 16, 4 subgroups, 64 keys, head size 64: 18.75 KiB.
const uint TILES = TILE_KEYS / N;  // matrices of scores
shared uvec4 tiles[LARGER(QUERY_TILE, KEY_TILE + VALUE_TILE)];
shared uvec2 seen[ROWS];    // the keys that a row sees
shared float totals[ROWS];  // the sum of its weights, in the end
#include "attention/matrix_tiles.glsl"

// What the drivers call with elements: a row and a column of the matrix, and what stands there.

float larger(const in float a, const in float b) { return max_keeping_nan(a, b); }
float larger_element(const in uint row, const in uint column, const in float a, const in float b) { return larger(a, b); }

// −∞ − (−∞) would be NaN.
float shift_of(const in uint row, const in uint column, const in float largest) {
    return largest == MINUS_INFINITY ? 0.0 : largest;
}

float shifted_weight(const in uint row, const in uint column, const in float score, const in float shift) {
    return exp(score - shift);
}

// The sink of a row's head, which its maximum begins with.
float sink_of_row(const in uint row, const in uint column, const in float largest, const in uint before_row) {
    return additive[head_of(before_row + row)];
}

float masked_element(const in uint row, const in uint column, const in float score, const in uint before_row,
                     const in uint before_column) {
    const uint r = before_row + row;
    return masked_score(score, r, first_key + before_column + column, seen[r]);
}

float stored(const in uint row, const in uint column, const in float sum, const in float total, const in uint before_row,
             const in uint before_column) {
    const uint r = before_row + row;
    const uint c = before_column + column;
    if (c == 0) totals[r] = total;
    if (first_row + r <= last_row && c < VALUE_DIM)
        y[query_row(r) * VALUE_DIM + c] = float16_t(total == 0.0 ? 0.0 : sum / total);
    return sum;
}

// A value that is not finite makes every result so to which it belongs, whatever the rest is. A weight of 0 is of the mask only.
void store_not_finite() {
    for (uint e = gl_LocalInvocationIndex; e < ROWS * VALUE_DIM; e += gl_WorkGroupSize.x) {
        const uint r = e / VALUE_DIM;
        if (first_row + r > last_row || isnan(totals[r])) continue;
        float sum = 0.0;
        for (uint j = seen[r].x; j < seen[r].y; ++j) {
            const float x = float(VALUE_ELEMENT(key_row(j) * VALUE_DIM + e % VALUE_DIM));
            if (!(abs(x) <= float(LARGEST_HALF))) sum += exp(additive_mask(batch, head_of(r), query_of(r), j)) * x;
        }
        if (sum != 0.0) y[query_row(r) * VALUE_DIM + e % VALUE_DIM] = float16_t(sum);
    }
}

// The next tiles wait in registers while these are multiplied, unless a workgroup of few subgroups had to hold too much of them.
const bool FETCHES_AHEAD = KEY_LOADS + VALUE_LOADS <= 16;

void fetch_tiles(uint key) {
    fetch_keys(key, end_key);
    fetch_values(key, end_key);
}

void main() {
    if (!find_rows_and_keys()) return;  // the whole workgroup leaves

    const uint tile_row = gl_SubgroupID * M;
    const bool multiplies = gl_SubgroupID < SUBGROUPS && first_row + tile_row <= last_row;

    put_queries();
    for (uint r = gl_LocalInvocationIndex; r < ROWS; r += gl_WorkGroupSize.x) seen[r] = visible_keys(batch, query_of(r));
    if (gl_LocalInvocationIndex == 0) not_finite = 0;
    barrier();
    coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> q[DEPTH_STEPS];
    [[unroll]] for (uint s = 0; s < DEPTH_STEPS; ++s)
        coopMatLoad(q[s], tiles, gl_SubgroupID % SUBGROUPS * M * DEPTH_PITCH + s * (K / 8), DEPTH_PITCH, ROW_MAJOR);
    const coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> ones =
        coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB>(float16_t(1.0));
    SUMS sums[VALUE_STEPS];
    SUMS total = SUMS(0.0);
    SUMS largest = SUMS(MINUS_INFINITY);
    SUMS shift;  // what scores of the tile are less when they become weights
    [[unroll]] for (uint v = 0; v < VALUE_STEPS; ++v) sums[v] = SUMS(0.0);
    if ((MASK & kScoreSinks) != 0) {
        coopMatPerElementNV(largest, largest, sink_of_row, gl_SubgroupID % SUBGROUPS * M);
        coopMatPerElementNV(shift, largest, shift_of);
        coopMatPerElementNV(total, largest, shifted_weight, shift);  // 1, or 0 where there is none
    }

    if (FETCHES_AHEAD && first_key < end_key) fetch_tiles(first_key);
    for (; first_key < end_key; first_key += TILE_KEYS) {
        if (!FETCHES_AHEAD) fetch_tiles(first_key);
        barrier();  // the tiles may still be read
        put_keys(0);
        put_values(KEY_TILE);
        barrier();
        if (FETCHES_AHEAD) fetch_tiles(first_key + TILE_KEYS);
        if (!multiplies) continue;

        // scores = scale · query · keyᵀ + mask
        SUMS scores[TILES];
        SUMS before = largest;
        [[unroll]] for (uint t = 0; t < TILES; ++t) {
            scores[t] = SUMS(0.0);
            [[unroll]] for (uint s = 0; s < DEPTH_STEPS; ++s) {
                coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> k;
                coopMatLoad(k, tiles, t * N * DEPTH_PITCH + s * (K / 8), DEPTH_PITCH, COLUMN_MAJOR);
                scores[t] = coopMatMulAdd(q[s], k, scores[t]);
            }
            scores[t] *= p.scale;
        }
        if (is_tile_masked())
            [[unroll]] for (uint t = 0; t < TILES; ++t)
                coopMatPerElementNV(scores[t], scores[t], masked_element, tile_row, t * N);
        [[unroll]] for (uint t = 0; t < TILES; ++t) coopMatPerElementNV(largest, largest, larger_element, scores[t]);
        coopMatReduceNV(largest, largest, gl_CooperativeMatrixReduceRowNV, larger);

        // sums = sums · correction + weights · value, weights = exp(scores − shift)
        SUMS correction;
        coopMatPerElementNV(shift, largest, shift_of);
        coopMatPerElementNV(correction, before, shifted_weight, shift);
        total *= correction;
        [[unroll]] for (uint v = 0; v < VALUE_STEPS; ++v) sums[v] *= correction;
        [[unroll]] for (uint t = 0; t < TILES; ++t) {
            coopMatPerElementNV(scores[t], scores[t], shifted_weight, shift);
            const coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> weights =
                coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA>(scores[t]);
            total = coopMatMulAdd(weights, ones, total);
            [[unroll]] for (uint v = 0; v < VALUE_STEPS; ++v) {
                coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> x;
                coopMatLoad(x, tiles, KEY_TILE + t * K * VALUE_PITCH + v * (N / 8), VALUE_PITCH, ROW_MAJOR);
                sums[v] = coopMatMulAdd(weights, x, sums[v]);
            }
        }
    }

    if (multiplies) {
        [[unroll]] for (uint v = 0; v < VALUE_STEPS; ++v)
            coopMatPerElementNV(sums[v], sums[v], stored, total, tile_row, v * N);
    }
    memoryBarrierBuffer();
    barrier();
    if (not_finite != 0) store_not_finite();
}
