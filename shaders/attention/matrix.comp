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
// A depth that is no multiple of K is filled up with zeros in shared memory; past the end of rows, keys and columns stand the last.
// The next keys come from memory while weights and values are multiplied, and the values while queries and keys are.
// The workgroup has at least SUBGROUPS subgroups, of whatever size; what it has more helps to load.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#define Y_MEMORY
#include "attention/matrix.glsl"

// The host counts these bytes too (matrices.cpp) and takes what fits. Sizes 16 × 16 × 16, 4 subgroups of 32: 26.5 KiB of shared memory
// with head size 64 and 64 keys, 18 KiB with 128 and 32. What is [row, N columns] for values that are not finite lies in the stage, too.
const uint STAGE = LARGER(LARGER(KEY_TILE, VALUE_TILE), ROWS * N / 4);
// Behind it a row has its scores, of TILE_KEYS keys. Then its weights, in halves, take their place, and behind these N times what its sums
// are scaled by. At the end, TILE_KEYS of its sums.
const uint CORRECTIONS = TILE_KEYS / 8;
const uint ROW_PITCH = LARGER(TILE_KEYS / 4, CORRECTIONS + N / 4) + 1;
const uint PARTS = gl_WorkGroupSize.x / ROWS;  // of a row in the softmax
const uint PART_OCTETS = (TILE_KEYS / 8 + PARTS - 1) / PARTS;
shared uvec4 tiles[LARGER(QUERY_TILE, STAGE + ROWS * ROW_PITCH)];
shared float part_scratch[gl_WorkGroupSize.x];
#include "attention/matrix_tiles.glsl"

// stage[r, c] = Σ_j weights[r, j] · value[j, first_column + c] over the values that put_values() left out and row r sees
void sum_not_finite(uint first_column) {
    for (uint e = gl_LocalInvocationIndex; e < ROWS * N; e += gl_WorkGroupSize.x) {
        const uint r = e / N, column = first_column + e % N;
        const uvec2 seen = visible_keys(batch, query_of(r));
        float sum = 0.0;
        for (uint j = max(first_key, seen.x); j < min(first_key + TILE_KEYS, seen.y) && column < VALUE_DIM; ++j) {
            const float x = float(VALUE_ELEMENT(key_row(j) * VALUE_DIM + column));
            const uint k = j - first_key;
            if (!(abs(x) <= float(LARGEST_HALF)))
                sum += unpackHalf2x16(tiles[STAGE + r * ROW_PITCH + k / 8][k % 8 / 2])[k % 2] * x;
        }
        tiles[e / 4][e % 4] = floatBitsToUint(sum);
    }
}

void main() {
    if (!find_rows_and_keys()) return;  // the whole workgroup leaves

    // A driver with smaller subgroups than it said has more of them: what they multiply is not used.
    const uint subgroup = gl_SubgroupID % SUBGROUPS;
    const bool stores = gl_SubgroupID == subgroup;
    const uint tile_row = subgroup * M;
    const uint row_tiles = STAGE + tile_row * ROW_PITCH;
    const uint lane = gl_LocalInvocationIndex;
    const uint row = lane / PARTS, part = lane % PARTS;

    fetch_keys(first_key, max(end_key, 1));
    put_queries();
    barrier();
    coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> q[DEPTH_STEPS];
    [[unroll]] for (uint s = 0; s < DEPTH_STEPS; ++s)
        coopMatLoad(q[s], tiles, tile_row * DEPTH_PITCH + s * (K / 8), DEPTH_PITCH, ROW_MAJOR);
    SUMS sums[VALUE_STEPS];
    [[unroll]] for (uint v = 0; v < VALUE_STEPS; ++v) sums[v] = SUMS(0.0);

    const uvec2 seen = visible_keys(batch, query_of(row));
    float running_max = MINUS_INFINITY;  // of the row's scores
    float running_sum = 0.0;             // of the weights that this invocation owns
    for (; first_key < end_key; first_key += TILE_KEYS) {
        barrier();  // the tiles may still be read
        put_keys(0);
        if (lane == 0) not_finite = 0;
        barrier();
        fetch_values(first_key, end_key);

        // scores = query · keyᵀ
        [[unroll]] for (uint c = 0; c < TILE_KEYS; c += N) {
            SUMS products = SUMS(0.0);
            [[unroll]] for (uint s = 0; s < DEPTH_STEPS; ++s) {
                coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> k;
                coopMatLoad(k, tiles, c * DEPTH_PITCH + s * (K / 8), DEPTH_PITCH, COLUMN_MAJOR);
                products = coopMatMulAdd(q[s], k, products);
            }
            if (stores) coopMatStore(products, tiles, row_tiles + c / 4, ROW_PITCH, ROW_MAJOR);
        }
        barrier();
        put_values(0, true);
        fetch_keys(first_key + TILE_KEYS, end_key);

        // scores = scale · scores + mask, weights = exp(scores − maximum)
        float scores[PART_OCTETS * 8];
        [[unroll]] for (uint i = 0; i < PART_OCTETS; ++i) {
            const uint octet = part + i * PARTS;
            [[unroll]] for (uint k = 0; k < 8; ++k)
                scores[i * 8 + k] = octet >= TILE_KEYS / 8 ? MINUS_INFINITY
                    : p.scale * uintBitsToFloat(tiles[STAGE + row * ROW_PITCH + octet * 2 + k / 4][k % 4]);
        }
        if (is_tile_masked())
            [[unroll]] for (uint i = 0; i < PART_OCTETS; ++i) {
                const uint octet = part + i * PARTS;
                [[unroll]] for (uint k = 0; k < 8; ++k)
                    if (octet < TILE_KEYS / 8)
                        scores[i * 8 + k] = masked_score(scores[i * 8 + k], row, first_key + octet * 8 + k, seen);
            }
        float largest = running_max;
        [[unroll]] for (uint s = 0; s < PART_OCTETS * 8; ++s) largest = max_keeping_nan(largest, scores[s]);
        part_scratch[lane] = largest;
        barrier();
        [[unroll]] for (uint other = 0; other < PARTS; ++other)
            largest = max_keeping_nan(largest, part_scratch[row * PARTS + other]);
        const float shift = largest == MINUS_INFINITY ? 0.0 : largest;  // −∞ − (−∞) would be NaN
        const float correction = exp(running_max - shift);
        running_max = largest;
        running_sum *= correction;
        [[unroll]] for (uint i = 0; i < PART_OCTETS; ++i) {
            const uint octet = part + i * PARTS;
            uvec4 weights;
            [[unroll]] for (uint c = 0; c < 4; ++c) {
                const vec2 pair = exp(vec2(scores[i * 8 + c * 2], scores[i * 8 + c * 2 + 1]) - shift);
                weights[c] = packHalf2x16(pair);
                const vec2 rounded = unpackHalf2x16(weights[c]);
                running_sum += rounded.x + rounded.y;
            }
            if (octet < TILE_KEYS / 8) tiles[STAGE + row * ROW_PITCH + octet] = weights;
        }
        for (uint c = part; c < N / 4; c += PARTS)
            tiles[STAGE + row * ROW_PITCH + CORRECTIONS + c] = uvec4(floatBitsToUint(correction));
        barrier();

        // sums = sums · correction + weights · value
        SUMS factors;
        coopMatLoad(factors, tiles, row_tiles + CORRECTIONS, ROW_PITCH, ROW_MAJOR);
        [[unroll]] for (uint v = 0; v < VALUE_STEPS; ++v) sums[v] *= factors;
        [[unroll]] for (uint k = 0; k < TILE_KEYS; k += K) {
            coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> w;
            coopMatLoad(w, tiles, row_tiles + k / 8, ROW_PITCH, ROW_MAJOR);
            [[unroll]] for (uint v = 0; v < VALUE_STEPS; ++v) {
                coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> x;
                coopMatLoad(x, tiles, k * VALUE_PITCH + v * (N / 8), VALUE_PITCH, ROW_MAJOR);
                sums[v] = coopMatMulAdd(w, x, sums[v]);
            }
        }
        if (not_finite != 0) {
            [[dont_unroll]] for (uint v = 0; v < VALUE_STEPS; ++v) {
                barrier();  // the stage may still be read
                sum_not_finite(v * N);
                barrier();
                SUMS more;
                coopMatLoad(more, tiles, tile_row * (N / 4), N / 4, ROW_MAJOR);
                [[unroll]] for (uint i = 0; i < VALUE_STEPS; ++i)
                    if (i == v) sums[i] += more;
            }
        }
    }

    // Sums are chosen by constants: a compiler that leaves these loops as they are would keep sums[v] of a variable v in memory, during
    // the products as well.
    const uint STEPS = TILE_KEYS / N;  // of sums that a row has room for
    part_scratch[lane] = running_sum + (part == 0 ? sink_weight(head_of(row), running_max) : 0.0);
    [[dont_unroll]] for (uint first = 0; first < VALUE_STEPS; first += STEPS) {
        barrier();  // the rows may still be read
        [[unroll]] for (uint v = 0; v < VALUE_STEPS; ++v)
            if (stores && v >= first && v < first + STEPS)
                coopMatStore(sums[v], tiles, row_tiles + (v - first) * (N / 4), ROW_PITCH, ROW_MAJOR);
        barrier();
        for (uint e = lane; e < ROWS * TILE_KEYS; e += gl_WorkGroupSize.x) {
            const uint r = e / TILE_KEYS, c = e % TILE_KEYS, column = first * N + c;
            if (first_row + r > last_row || column >= VALUE_DIM) continue;
            float total = 0.0;
            for (uint other = 0; other < PARTS; ++other) total += part_scratch[r * PARTS + other];
            const float sum = uintBitsToFloat(tiles[STAGE + r * ROW_PITCH + c / 4][c % 4]);
            y[query_row(r) * VALUE_DIM + column] = float16_t(total == 0.0 ? 0.0 : sum / total);
        }
    }
}
