#version 460
// SPDX-License-Identifier: MIT
// y[b, i, h, :] = Σ_j softmax_j(s[i, j]) · value[b, j, g, :]: attention/tile.comp's formula, operands and mask, in float16, on
// cooperative matrices (VK_KHR_cooperative_matrix): float16 products with float32 sums. The weights of the values, at most 1, are
// rounded to float16, and it is the rounded ones that are added up, so that they still sum to 1.
// A row is a query of one of the `group` = heads / kv_heads heads that share keys and values: row i · group + h % group.
// A workgroup owns ROWS = SUBGROUPS · M rows of one key head, each of its first SUBGROUPS subgroups M of them: their queries and
// sums stay in its matrices. All walk over the keys that any of the rows sees, TILE_KEYS at a time, and share the tile of keys,
// then of values. Where an element of a matrix lies is the driver's secret: the softmax reads scores and writes weights in shared
// memory, and what a row's sums are scaled by comes as a matrix too. In the softmax, PARTS neighbouring invocations own a row.
// Sizes that are no multiples of M, N and K are filled up with zeros in shared memory.
// The workgroup has at least SUBGROUPS subgroups, of whatever size; what it has more helps to load.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#define STAGES 1
#define Y_MEMORY
#include "attention/matrix.glsl"

// The host counts these bytes too (attention.cpp) and takes what fits; rows are longer as those of the stage are. Sizes
// 16 × 16 × 16, 4 subgroups, head size 64: 9 KiB of the stage, 17 + 9 + 4 KiB, and 0.75 of the rest.
const uint SCORE_PITCH = TILE_KEYS + 4;
const uint WEIGHT_PITCH = TILE_KEYS + 8;
shared float scores[ROWS * SCORE_PITCH];            // [row, key], and at the end [row, value column]
shared float16_t weights[ROWS * WEIGHT_PITCH];      // [row, key]
shared float corrections[ROWS * N];                 // [row, the same N times]
shared float part_scratch[kMaxWorkgroup];

// scores[r, c] = Σ_j weights[r, j] · value[j, first_column + c] over the values that finite_part() left out and row r sees
void sum_not_finite(uint keys, uint first_column) {
    for (uint e = gl_LocalInvocationIndex; e < ROWS * TILE_KEYS; e += gl_WorkGroupSize.x) {
        const uint r = e / TILE_KEYS;
        const uint column = first_column + e % TILE_KEYS;
        const uvec2 seen = visible_keys(batch, query_of(r));
        float sum = 0.0;
        for (uint j = 0; j < keys && column < VALUE_DIM; ++j) {
            if (first_key + j < seen.x || first_key + j >= seen.y) continue;
            const float x = float(VALUE_ELEMENT(key_row(j) * VALUE_DIM + column));
            if (!(abs(x) <= float(LARGEST_HALF))) sum += float(weights[r * WEIGHT_PITCH + j]) * x;
        }
        scores[r * SCORE_PITCH + e % TILE_KEYS] = sum;
    }
}

void main() {
    if (!find_rows()) return;  // the whole workgroup leaves

    const uint lane = gl_LocalInvocationIndex;
    const uint tile_row = gl_SubgroupID * M;
    const bool multiplies = gl_SubgroupID < SUBGROUPS && first_row + tile_row <= last_row;
    const uint parts = gl_WorkGroupSize.x / ROWS;
    const uint row = lane / parts;
    const uint part = lane % parts;

    STAGE(0, QUERY_ELEMENT, QUERY_QUAD, query_row, HEAD_DIM, DEPTH_QUADS, ROWS, ROWS, f16vec4)
    barrier();
    coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> q[DEPTH_STEPS];
    SUMS sums[VALUE_STEPS];
    if (multiplies) {
        [[unroll]] for (uint s = 0; s < DEPTH_STEPS; ++s)
            coopMatLoad(q[s], stage, tile_row * STAGE_PITCH + s * (K / 4), STAGE_PITCH, ROW_MAJOR);
        [[unroll]] for (uint v = 0; v < VALUE_STEPS; ++v) sums[v] = SUMS(0.0);
    }

    const uvec2 seen = visible_keys(batch, query_of(row));
    float running_max = MINUS_INFINITY;  // of the row's scores
    float running_sum = 0.0;             // of the weights that this invocation owns
    const uint end_key = visible_keys(batch, last_row / group).y;
    for (first_key = visible_keys(batch, first_row / group).x; first_key < end_key; first_key += TILE_KEYS) {
        const uint keys = min(TILE_KEYS, end_key - first_key);
        barrier();  // stage and weights may still be read
        STAGE(0, KEY_ELEMENT, KEY_QUAD, key_row, HEAD_DIM, DEPTH_QUADS, keys, TILE_KEYS, f16vec4)
        if (lane == 0) not_finite = 0;
        barrier();

        // scores = query · keyᵀ
        if (multiplies) {
            for (uint c = 0; c < TILE_KEYS; c += N) {
                SUMS products = SUMS(0.0);
                [[unroll]] for (uint s = 0; s < DEPTH_STEPS; ++s) {
                    coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> k;
                    coopMatLoad(k, stage, c * STAGE_PITCH + s * (K / 4), STAGE_PITCH, COLUMN_MAJOR);
                    products = coopMatMulAdd(q[s], k, products);
                }
                coopMatStore(products, scores, tile_row * SCORE_PITCH + c, SCORE_PITCH, ROW_MAJOR);
            }
        }
        barrier();

        // scores = scale · scores + mask, weights = exp(scores − maximum)
        STAGE(0, VALUE_ELEMENT, VALUE_QUAD, key_row, VALUE_DIM, VALUE_QUADS, keys, TILE_KEYS, finite_part)
        float largest = running_max;
        for (uint k = part; k < TILE_KEYS; k += parts) {
            const uint j = first_key + k;
            float score = MINUS_INFINITY;
            if (j >= seen.x && j < seen.y && k < keys) {
                score = p.scale * scores[row * SCORE_PITCH + k];
                if ((MASK & kScoreSoftCap) != 0) score = soft_capped(score, p.soft_cap);
                score += additive_mask(batch, head_of(row), query_of(row), j);
            }
            scores[row * SCORE_PITCH + k] = score;
            largest = max_keeping_nan(largest, score);
        }
        part_scratch[lane] = largest;
        barrier();
        for (uint other = 0; other < parts; ++other)
            largest = max_keeping_nan(largest, part_scratch[row * parts + other]);
        const float shift = largest == MINUS_INFINITY ? 0.0 : largest;  // −∞ − (−∞) would be NaN
        const float correction = exp(running_max - shift);
        running_max = largest;
        running_sum *= correction;
        for (uint k = part; k < TILE_KEYS; k += parts) {
            const float16_t weight = float16_t(exp(scores[row * SCORE_PITCH + k] - shift));
            running_sum += float(weight);
            weights[row * WEIGHT_PITCH + k] = weight;
        }
        for (uint c = part; c < N; c += parts) corrections[row * N + c] = correction;
        barrier();

        // sums = sums · correction + weights · value
        if (multiplies) {
            SUMS factors;
            coopMatLoad(factors, corrections, tile_row * N, N, ROW_MAJOR);
            [[unroll]] for (uint v = 0; v < VALUE_STEPS; ++v) sums[v] *= factors;
            for (uint k = 0; k < TILE_KEYS; k += K) {
                coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> w;
                coopMatLoad(w, weights, tile_row * WEIGHT_PITCH + k, WEIGHT_PITCH, ROW_MAJOR);
                [[unroll]] for (uint v = 0; v < VALUE_STEPS; ++v) {
                    coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> x;
                    coopMatLoad(x, stage, k * STAGE_PITCH + v * (N / 4), STAGE_PITCH, ROW_MAJOR);
                    sums[v] = coopMatMulAdd(w, x, sums[v]);
                }
            }
        }
        if (not_finite != 0) {
            [[unroll]] for (uint v = 0; v < VALUE_STEPS; ++v) {
                if (v % (TILE_KEYS / N) == 0) {
                    barrier();
                    sum_not_finite(keys, v * N);
                    barrier();
                }
                if (multiplies) {
                    SUMS more;
                    coopMatLoad(more, scores, tile_row * SCORE_PITCH + v % (TILE_KEYS / N) * N, SCORE_PITCH, ROW_MAJOR);
                    sums[v] += more;
                }
            }
        }
    }

    part_scratch[lane] = running_sum;
    [[unroll]] for (uint v = 0; v < VALUE_STEPS; ++v) {
        const uint column = v % (TILE_KEYS / N) * N;  // of `scores`, which hold TILE_KEYS / N matrices of a subgroup
        if (column == 0) barrier();                   // they may still be read
        if (multiplies) coopMatStore(sums[v], scores, tile_row * SCORE_PITCH + column, SCORE_PITCH, ROW_MAJOR);
        if (column + N < TILE_KEYS && v + 1 < VALUE_STEPS) continue;
        barrier();
        const uint first_column = v * N - column;
        for (uint e = lane; e < ROWS * TILE_KEYS; e += gl_WorkGroupSize.x) {
            const uint r = e / TILE_KEYS;
            const uint c = e % TILE_KEYS;
            if (first_row + r > last_row || c >= column + N || first_column + c >= VALUE_DIM) continue;
            float total = 0.0;
            for (uint other = 0; other < parts; ++other) total += part_scratch[r * parts + other];
            y[query_row(r) * VALUE_DIM + first_column + c] =
                float16_t(total == 0.0 ? 0.0 : scores[r * SCORE_PITCH + c] / total);
        }
    }
}
