#version 460
// SPDX-License-Identifier: MIT
// attention/matrix.comp's formula and operands, on drivers that say where an element of a cooperative matrix lies
// (VK_NV_cooperative_matrix2). Its rows, too: a workgroup owns ROWS = SUBGROUPS · M rows of one key head, each of its first SUBGROUPS
// subgroups M of them. Tiles of keys and values pass through shared memory, both at a time, and the next come from memory while they are
// multiplied; scores, weights, maxima and sums never leave the matrices of their subgroup. The maximum of a row stands in all N elements of
// a row of a matrix; the weights of a row, not yet rounded, are added up column by column, and the N sums at the end. What are scores become
// weights, operands of the next product, so N = K.
// In tiles of which some row does not see some key, values that are not finite are staged as zeros, and what they would have given replaces
// the result at the end; elsewhere they are in all results anyway.
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

// Not a number may be lost here: the weight of such a score is none either.
float larger(const in float a, const in float b) { return max(a, b); }
float larger_element(const in uint row, const in uint column, const in float a, const in float b) { return max(a, b); }

// Scores are scaled together with the logarithm's base, where that keeps their order and nothing is done with them before.
bool are_scaled() { return MASKED_THROUGHOUT || !(p.scale > 0.0); }
float log2_scale;  // log2(e), times p.scale where scores are not scaled

// Maxima begin with the least float32 and not with −∞, so that differences from them are never those of infinities.
#define LEAST uintBitsToFloat(0xFF7FFFFFu)

float weight_of(const in uint row, const in uint column, const in float score, const in float largest) {
    return exp2(log2_scale * (score - largest));
}

// The sink of a row's head, a score, which its maximum begins with.
float sink_score(uint row) { return additive[head_of(row)] / (are_scaled() ? 1.0 : p.scale); }
float sink_of_row(const in uint row, const in uint column, const in float largest, const in uint before_row) {
    return max_keeping_nan(largest, sink_score(before_row + row));
}

// And its weight, which is one of the row's: 1, or 0 where there is none.
float weight_of_sink(const in uint row, const in uint column, const in float largest, const in uint before_row) {
    return column == 0 ? weight_of(row, column, sink_score(before_row + row), largest) : 0.0;
}

float plus(const in float a, const in float b) { return a + b; }

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

    // All multiply, also for rows that are not there and where a driver with smaller subgroups than it said has more of them: a condition
    // would stand around everything.
    const uint tile_row = gl_SubgroupID % SUBGROUPS * M;
    const bool stores = gl_SubgroupID < SUBGROUPS;

    put_queries();
    for (uint r = gl_LocalInvocationIndex; r < ROWS; r += gl_WorkGroupSize.x) seen[r] = visible_keys(batch, query_of(r));
    if (gl_LocalInvocationIndex == 0) not_finite = 0;
    barrier();
    coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> q[DEPTH_STEPS];
    [[unroll]] for (uint s = 0; s < DEPTH_STEPS; ++s)
        coopMatLoad(q[s], tiles, tile_row * DEPTH_PITCH + s * (K / 8), DEPTH_PITCH, ROW_MAJOR);
    SUMS sums[VALUE_STEPS];
    SUMS total = SUMS(0.0);
    SUMS largest = SUMS(LEAST);
    log2_scale = 1.4426950408889634 * (are_scaled() ? 1.0 : p.scale);
    [[unroll]] for (uint v = 0; v < VALUE_STEPS; ++v) sums[v] = SUMS(0.0);
    if ((MASK & kScoreSinks) != 0) {
        coopMatPerElementNV(largest, largest, sink_of_row, tile_row);
        coopMatPerElementNV(total, largest, weight_of_sink, tile_row);
    }

    if (FETCHES_AHEAD && first_key < end_key) fetch_tiles(first_key);
    for (; first_key < end_key; first_key += TILE_KEYS) {
        if (!FETCHES_AHEAD) fetch_tiles(first_key);
        barrier();  // the tiles may still be read
        put_keys(0);
        put_values(KEY_TILE, is_tile_masked());
        barrier();
        if (FETCHES_AHEAD) fetch_tiles(first_key + TILE_KEYS);

        // scores = scale · query · keyᵀ + mask, or that divided by the scale
        SUMS scores[TILES];
        [[unroll]] for (uint t = 0; t < TILES; ++t) {
            scores[t] = SUMS(0.0);
            [[unroll]] for (uint s = 0; s < DEPTH_STEPS; ++s) {
                coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> k;
                coopMatLoad(k, tiles, t * N * DEPTH_PITCH + s * (K / 8), DEPTH_PITCH, COLUMN_MAJOR);
                scores[t] = coopMatMulAdd(q[s], k, scores[t]);
            }
        }
        if (are_scaled())
            [[unroll]] for (uint t = 0; t < TILES; ++t) scores[t] *= p.scale;
        if (is_tile_masked())
            [[unroll]] for (uint t = 0; t < TILES; ++t)
                coopMatPerElementNV(scores[t], scores[t], masked_element, tile_row, t * N);
        SUMS now = scores[0];
        [[unroll]] for (uint t = 1; t < TILES; ++t) coopMatPerElementNV(now, now, larger_element, scores[t]);
        coopMatReduceNV(now, now, gl_CooperativeMatrixReduceRowNV, larger);
        coopMatPerElementNV(now, now, larger_element, largest);

        // sums = sums · correction + weights · value, weights = exp(scores − now)
        SUMS correction;
        coopMatPerElementNV(correction, largest, weight_of, now);
        largest = now;
        total *= correction;
        [[unroll]] for (uint v = 0; v < VALUE_STEPS; ++v) sums[v] *= correction;
        [[unroll]] for (uint t = 0; t < TILES; ++t) {
            coopMatPerElementNV(scores[t], scores[t], weight_of, largest);
            total += scores[t];
            const coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> weights =
                coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA>(scores[t]);
            [[unroll]] for (uint v = 0; v < VALUE_STEPS; ++v) {
                coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> x;
                coopMatLoad(x, tiles, KEY_TILE + t * K * VALUE_PITCH + v * (N / 8), VALUE_PITCH, ROW_MAJOR);
                sums[v] = coopMatMulAdd(weights, x, sums[v]);
            }
        }
    }
    coopMatReduceNV(total, total, gl_CooperativeMatrixReduceRowNV, plus);

    if (stores) {
        [[unroll]] for (uint v = 0; v < VALUE_STEPS; ++v)
            coopMatPerElementNV(sums[v], sums[v], stored, total, tile_row, v * N);
    }
    memoryBarrierBuffer();
    barrier();
    if (not_finite != 0) store_not_finite();
}
