#version 460
// SPDX-License-Identifier: MIT
// attention/tile.comp's formula, operands and mask, for head_dim and value_dim that are multiples of 4: four neighbours at a time are
// loaded, kept in shared memory and multiplied.
// A workgroup of 128 owns 16 · QUERY_STEPS queries of one head and walks over the keys that any of them sees, 32 at a time. Invocation
// (row, quad) of 16 × 8 owns queries row + 16r; of these, in the scores, keys quad + 8c, c < 4; in the sums, columns
// 4 · quad … 4 · quad + 3 of every 32; and in the softmax keys 4 · quad … 4 · quad + 3. So what belongs to a query stays with eight
// neighbours: its maximum and its sum are kept by each of them.
// A tile that all queries see whole, most of them where sequences are long, is masked nowhere; in the others a value that a query
// does not see is not multiplied at all, as it may be no number.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "attention/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"
#include "lib/storage4.glsl"
#include "lib/kv_cache.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kAttentionQuerySteps) const uint QUERY_STEPS = 1;  // queries of an invocation: 1 or 2
layout(constant_id = kAttentionValueTiles) const uint VALUE_TILES = 1;
layout(constant_id = kAttentionMask) const uint MASK = 0;
layout(push_constant) uniform Push { PART_OF_GRID AttentionPush p; };
layout(std430, binding = kAttentionQuery) readonly buffer Query { ELEMENT4 query[]; };
layout(std430, binding = kAttentionKey) readonly buffer Key { KV_ELEMENT4 key[]; };
layout(std430, binding = kAttentionValue) readonly buffer Value { KV_ELEMENT4 value[]; };
layout(std430, binding = kAttentionKeyLengths) readonly buffer KeyLengths { int key_lengths[]; };
layout(std430, binding = kAttentionStarts) readonly buffer Starts { int starts[]; };
layout(std430, binding = kAttentionAdditive) readonly buffer Additive { float additive[]; };
layout(std430, binding = kAttentionPages) readonly buffer Pages { uint pages[]; };
layout(std430, binding = kAttentionY) writeonly buffer Y { ELEMENT4 y[]; };
#include "lib/attention_mask.glsl"
#include "lib/numbers.glsl"
#include "lib/soft_cap.glsl"
const bool IN_PAGES = (MASK & kKeysInPages) != 0;
#include "lib/pages.glsl"

const uint TILE = kAttentionTile;  // keys, depth and columns
const uint QUADS = TILE / 4;       // as many as neighbours that share a query
const uint PITCH = QUADS + 1;      // odd: eight rows of a quad each then lie in 32 banks
const uint LANE_ROWS = kAttentionWorkgroup / QUADS;
const uint TILE_QUERIES = LANE_ROWS * QUERY_STEPS;
const uint KEY_STEPS = TILE / QUADS;

// 3 · 32 · 9 · 16 + 32 · 8 · 4 bytes: 14.5 KiB for 32 queries
shared vec4 query_tile[TILE_QUERIES * PITCH];   // [query, quad of the depth]
shared vec4 key_tile[TILE * PITCH];             // [key, quad of the depth], then [key, quad of the columns]
shared vec4 weight_tile[TILE_QUERIES * PITCH];  // [query, four keys]: exp(score − maximum)
shared float part_scratch[TILE_QUERIES * QUADS];

void main() {
    const uint query_tiles = (p.query_len + TILE_QUERIES - 1) / TILE_QUERIES;
    const uint workgroup = linear_workgroup();
    const uint first_query = workgroup % query_tiles * TILE_QUERIES;
    const uint head = workgroup / query_tiles % p.heads;
    const uint batch = workgroup / query_tiles / p.heads;
    if (batch >= p.batch) return;  // the whole workgroup leaves
    const uint kv_head = head / (p.heads / p.kv_heads);
    const uint last_query = min(first_query + TILE_QUERIES, p.query_len) - 1;  // rows past it repeat it, are not stored

    const uint lane = gl_LocalInvocationIndex;
    const uint row = lane / QUADS, quad = lane % QUADS;
    const uint head_quads = p.head_dim / 4, value_quads = p.value_dim / 4;
    const uint key_blocks = p.kv_rows * p.kv_heads * (p.head_dim / 32);  // with Q8_CACHE
    const uint value_blocks = p.kv_rows * p.kv_heads * (p.value_dim / 32);
    const uint key_row = p.kv_heads * head_quads, value_row = p.kv_heads * value_quads;  // quads from a key to the next

    float running_max[QUERY_STEPS], running_sum[QUERY_STEPS];  // of the query; of this invocation's keys
    uvec2 seen[QUERY_STEPS];
    uint query_quad[QUERY_STEPS];
    vec4 sums[QUERY_STEPS * VALUE_TILES];
    [[unroll]] for (uint r = 0; r < QUERY_STEPS; ++r) {
        const uint i = min(first_query + row + r * LANE_ROWS, last_query);
        running_max[r] = MINUS_INFINITY;
        running_sum[r] = 0.0;
        seen[r] = visible_keys(batch, i);
        query_quad[r] = ((batch * p.query_len + i) * p.heads + head) * head_quads;
        [[unroll]] for (uint t = 0; t < VALUE_TILES; ++t) sums[t * QUERY_STEPS + r] = vec4(0.0);
    }
    const uint begin_key = visible_keys(batch, first_query).x, end_key = visible_keys(batch, last_query).y;
    const uint all_see_from = visible_keys(batch, last_query).x, all_see_to = visible_keys(batch, first_query).y;

    // In pages a tile lies in one of them.
    for (uint first_key = begin_key - (IN_PAGES ? begin_key % TILE : 0); first_key < end_key; first_key += TILE) {
        const uint keys = min(TILE, end_key - first_key);
        const uint first_row = row_offset(batch, p.mask.key_len, first_key, p.kv_rows) + first_key;
        const uint first_key_quad = first_row * key_row + kv_head * head_quads;
        const uint first_value_quad = first_row * value_row + kv_head * value_quads;
        const bool whole = keys == TILE && first_key >= all_see_from && first_key + TILE <= all_see_to;

        // scores = scale · query · keyᵀ + mask
        float scores[QUERY_STEPS * KEY_STEPS];
        [[unroll]] for (uint s = 0; s < QUERY_STEPS * KEY_STEPS; ++s) scores[s] = 0.0;
        for (uint depth = 0; depth < head_quads; depth += QUADS) {
            barrier();  // the tiles may still be read
            const uint d = min(depth + quad, head_quads - 1);  // quads past the end repeat the last one and are not read
            [[unroll]] for (uint r = 0; r < QUERY_STEPS; ++r)
                query_tile[(row + r * LANE_ROWS) * PITCH + quad] = LOAD4(query, query_quad[r] + d);
            [[unroll]] for (uint k = 0; k < TILE; k += LANE_ROWS) {
                const uint j = min(row + k, keys - 1);  // keys likewise
                key_tile[(row + k) * PITCH + quad] = KV_LOAD4(key, first_key_quad + j * key_row + d, key_blocks);
            }
            barrier();
            const uint count = min(QUADS, head_quads - depth);
            [[dont_unroll]] for (uint e = 0; e < count; ++e) {
                vec4 k[KEY_STEPS];
                [[unroll]] for (uint c = 0; c < KEY_STEPS; ++c) k[c] = key_tile[(quad + c * QUADS) * PITCH + e];
                [[unroll]] for (uint r = 0; r < QUERY_STEPS; ++r) {
                    const vec4 q = query_tile[(row + r * LANE_ROWS) * PITCH + e];
                    [[unroll]] for (uint c = 0; c < KEY_STEPS; ++c)
                        scores[r * KEY_STEPS + c] = add_product(q, k[c], scores[r * KEY_STEPS + c]);
                }
            }
        }
        [[unroll]] for (uint r = 0; r < QUERY_STEPS; ++r) {
            const uint i = min(first_query + row + r * LANE_ROWS, last_query);
            float largest = running_max[r];
            [[unroll]] for (uint c = 0; c < KEY_STEPS; ++c) {
                const uint j = first_key + quad + c * QUADS;
                float score = MINUS_INFINITY;
                if (whole || j >= seen[r].x && j < seen[r].y) {
                    score = p.scale * scores[r * KEY_STEPS + c];
                    if ((MASK & kScoreSoftCap) != 0) score = soft_capped(score, p.soft_cap);
                    score += additive_mask(batch, head, i, j);
                }
                scores[r * KEY_STEPS + c] = score;
                largest = max_keeping_nan(largest, score);
            }
            part_scratch[(row + r * LANE_ROWS) * QUADS + quad] = largest;
        }
        barrier();

        // weights = exp(scores − maximum)
        [[unroll]] for (uint r = 0; r < QUERY_STEPS; ++r) {
            float largest = running_max[r];
            [[unroll]] for (uint part = 0; part < QUADS; ++part)
                largest = max_keeping_nan(largest, part_scratch[(row + r * LANE_ROWS) * QUADS + part]);
            const float shift = largest == MINUS_INFINITY ? 0.0 : largest;  // −∞ − (−∞) would be NaN
            const float correction = exp(running_max[r] - shift);
            running_max[r] = largest;
            running_sum[r] *= correction;
            [[unroll]] for (uint c = 0; c < KEY_STEPS; ++c) {
                const float weight = exp(scores[r * KEY_STEPS + c] - shift);
                running_sum[r] += weight;
                weight_tile[(row + r * LANE_ROWS) * PITCH + quad / 4 + c * (QUADS / 4)][quad % 4] = weight;
            }
            [[unroll]] for (uint t = 0; t < VALUE_TILES; ++t) sums[t * QUERY_STEPS + r] *= correction;
        }

        // sums = sums · correction + weights · value. Those of a tile are chosen by constants: a compiler that does not unroll this loop
        // would keep sums[] in memory.
        [[unroll]] for (uint t = 0; t < VALUE_TILES; ++t) {
            vec4 tile_sums[QUERY_STEPS];
            [[unroll]] for (uint i = 0; i < VALUE_TILES; ++i)
                [[unroll]] for (uint r = 0; r < QUERY_STEPS; ++r)
                    if (i == t) tile_sums[r] = sums[i * QUERY_STEPS + r];
            if (t > 0) barrier();  // the tile may still be read; the first one: not since the barrier above
            const uint v = min(t * QUADS + quad, value_quads - 1);  // columns past the end are not stored
            [[unroll]] for (uint k = 0; k < TILE; k += LANE_ROWS) {
                const uint j = min(row + k, keys - 1);
                key_tile[(row + k) * PITCH + quad] = KV_LOAD4(value, first_value_quad + j * value_row + v, value_blocks);
            }
            barrier();
            if (whole) {
                [[dont_unroll]] for (uint j = 0; j < TILE; j += 4) {
                    vec4 four[4];
                    [[unroll]] for (uint k = 0; k < 4; ++k) four[k] = key_tile[(j + k) * PITCH + quad];
                    [[unroll]] for (uint r = 0; r < QUERY_STEPS; ++r) {
                        const vec4 weights = weight_tile[(row + r * LANE_ROWS) * PITCH + j / 4];
                        [[unroll]] for (uint k = 0; k < 4; ++k)
                            tile_sums[r] = fma(vec4(weights[k]), four[k], tile_sums[r]);
                    }
                }
            } else {
                [[dont_unroll]] for (uint j = 0; j < keys; ++j) {
                    const vec4 element = key_tile[j * PITCH + quad];
                    [[unroll]] for (uint r = 0; r < QUERY_STEPS; ++r) {
                        const float weight = weight_tile[(row + r * LANE_ROWS) * PITCH + j / 4][j % 4];
                        if (first_key + j >= seen[r].x && first_key + j < seen[r].y)
                            tile_sums[r] = fma(vec4(weight), element, tile_sums[r]);
                    }
                }
            }
            [[unroll]] for (uint i = 0; i < VALUE_TILES; ++i)
                [[unroll]] for (uint r = 0; r < QUERY_STEPS; ++r)
                    if (i == t) sums[i * QUERY_STEPS + r] = tile_sums[r];
        }
    }

    [[unroll]] for (uint r = 0; r < QUERY_STEPS; ++r)
        part_scratch[(row + r * LANE_ROWS) * QUADS + quad] = running_sum[r] + (quad == 0 ? sink_weight(head, running_max[r]) : 0.0);
    barrier();
    [[unroll]] for (uint r = 0; r < QUERY_STEPS; ++r) {
        const uint i = first_query + row + r * LANE_ROWS;
        if (i > last_query) continue;
        float total = 0.0;
        [[unroll]] for (uint part = 0; part < QUADS; ++part) total += part_scratch[(row + r * LANE_ROWS) * QUADS + part];
        const uint base = ((batch * p.query_len + i) * p.heads + head) * value_quads;
        [[unroll]] for (uint t = 0; t < VALUE_TILES; ++t) {
            const uint v = t * QUADS + quad;
            if (v < value_quads) STORE4(y, base + v, total == 0.0 ? vec4(0.0) : sums[t * QUERY_STEPS + r] / total);
        }
    }
}
