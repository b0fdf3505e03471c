#version 460
// SPDX-License-Identifier: MIT
// y[b, i, h, :] = Σ_j softmax_j(s[i, j]) · value[b, j, g, :] over the keys j that query i sees, zeros if none;
// s[i, j] = scale · query[b, i, h, :] · key[b, j, g, :] + additive mask, g = h / (heads / kv_heads); with a soft cap, the product is
// capped as lib/soft_cap.glsl says before the mask is added.
// query: [batch, query_len, heads, head_dim], key: [batch, key_len, kv_heads, head_dim],
// value: [batch, key_len, kv_heads, value_dim], y: [batch, query_len, heads, value_dim];
// storage as lib/storage.glsl says, arithmetic in float32; the mask is described in lib/attention_mask.glsl.
// Vaswani et al. 2017, eq. 1; grouped heads: Ainslie et al. 2023. Softmax in one pass over tiles of keys (Milakov and
// Gimelshein 2018, alg. 3): with the running maximum m of the scores so far, sums are kept of exp(s − m) and of
// exp(s − m) · value, and scaled by exp(m_old − m_new) where m grows.
// A workgroup owns TILE_QUERIES queries of one head and walks over the keys that any of them sees; the others are not
// read. In the products, invocation (row, column) of 8 × 16 owns queries row + 8r and keys, then value columns,
// column + 16c; in the softmax, PARTS neighbouring invocations own one query, each PART_KEYS keys of the tile.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "attention/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"
#include "lib/kv_cache.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kAttentionQuerySteps) const uint QUERY_STEPS = 1;
layout(constant_id = kAttentionValueTiles) const uint VALUE_TILES = 1;
layout(constant_id = kAttentionMask) const uint MASK = 0;
layout(push_constant) uniform Push { PART_OF_GRID AttentionPush p; };
layout(std430, binding = kAttentionQuery) readonly buffer Query { ELEMENT query[]; };
layout(std430, binding = kAttentionKey) readonly buffer Key { KV_ELEMENT key[]; };
layout(std430, binding = kAttentionValue) readonly buffer Value { KV_ELEMENT value[]; };
layout(std430, binding = kAttentionKeyLengths) readonly buffer KeyLengths { int key_lengths[]; };
layout(std430, binding = kAttentionStarts) readonly buffer Starts { int starts[]; };
layout(std430, binding = kAttentionAdditive) readonly buffer Additive { float additive[]; };
layout(std430, binding = kAttentionPages) readonly buffer Pages { uint pages[]; };
layout(std430, binding = kAttentionY) STORED buffer Y { ELEMENT y[]; };
#include "lib/attention_mask.glsl"
#include "lib/numbers.glsl"
#include "lib/soft_cap.glsl"
const bool IN_PAGES = (MASK & kKeysInPages) != 0;
#include "lib/pages.glsl"

const uint TILE = kAttentionTile;
const uint PITCH = TILE + 1;  // not 32: the rows that are read at a time then lie in different banks
const uint LANE_ROWS = kAttentionLaneRows;
const uint LANE_COLUMNS = kAttentionWorkgroup / LANE_ROWS;
const uint COLUMN_STEPS = TILE / LANE_COLUMNS;
const uint TILE_QUERIES = LANE_ROWS * QUERY_STEPS;
const uint PARTS = kAttentionWorkgroup / TILE_QUERIES;
const uint PART_KEYS = TILE / PARTS;
const bool SAME_KEYS_FOR_ALL = (MASK & (kMaskCausal | kMaskWindow)) == 0;  // all queries of a sequence see the same

// 3 · 32 · 33 · 4 + 128 · 4 + 32 · 4 bytes = 13 KiB of shared memory; of 16 KiB there is nothing left for a longer
// tile. Registers: QUERY_STEPS · 2 · (VALUE_TILES + 1) sums: 24 for value_dim 64, 72 for 256, 76 for 576.
shared float query_tile[TILE * PITCH];   // [query, depth]
shared float key_tile[TILE * PITCH];     // [key, depth], then [key, value column]
shared float weight_tile[TILE * PITCH];  // [query, key]: scores, then exp(score − maximum)
shared float part_scratch[kAttentionWorkgroup];
shared float row_correction[TILE];

void main() {
    const uint query_tiles = (p.query_len + TILE_QUERIES - 1) / TILE_QUERIES;
    const uint workgroup = linear_workgroup();
    const uint first_query = workgroup % query_tiles * TILE_QUERIES;
    const uint head = workgroup / query_tiles % p.heads;
    const uint batch = workgroup / query_tiles / p.heads;
    if (batch >= p.batch) return;  // the whole workgroup leaves
    const uint kv_head = head / (p.heads / p.kv_heads);
    const uint key_blocks = p.kv_rows * p.kv_heads * (p.head_dim / 32);  // with Q8_CACHE
    const uint value_blocks = p.kv_rows * p.kv_heads * (p.value_dim / 32);
    const uint last_query = min(first_query + TILE_QUERIES, p.query_len) - 1;  // rows past it repeat it, are not stored

    const uint lane = gl_LocalInvocationIndex;
    const uint row = lane / LANE_COLUMNS;
    const uint column = lane % LANE_COLUMNS;
    const uint softmax_row = lane / PARTS;
    const uint softmax_base = softmax_row * PITCH + lane % PARTS * PART_KEYS;

    float running_max = MINUS_INFINITY;  // of query softmax_row
    float running_sum = 0.0;             // of the keys that this invocation owns
    float sums[QUERY_STEPS * COLUMN_STEPS * VALUE_TILES];
    [[unroll]] for (uint s = 0; s < QUERY_STEPS * COLUMN_STEPS * VALUE_TILES; ++s) sums[s] = 0.0;

    uvec2 seen[QUERY_STEPS];
    [[unroll]] for (uint r = 0; r < QUERY_STEPS; ++r)
        seen[r] = visible_keys(batch, min(first_query + row + r * LANE_ROWS, last_query));

    const uint begin_key = visible_keys(batch, first_query).x, end_key = visible_keys(batch, last_query).y;
    // In pages a tile lies in one of them.
    for (uint first_key = begin_key - (IN_PAGES ? begin_key % TILE : 0); first_key < end_key; first_key += TILE) {
        const uint keys = min(TILE, end_key - first_key);
        const uint first_row = row_offset(batch, p.mask.key_len, first_key, p.kv_rows) + first_key;

        // scores = scale · query · keyᵀ + mask
        float scores[QUERY_STEPS * COLUMN_STEPS];
        [[unroll]] for (uint s = 0; s < QUERY_STEPS * COLUMN_STEPS; ++s) scores[s] = 0.0;
        for (uint depth = 0; depth < p.head_dim; depth += TILE) {
            const uint count = min(TILE, p.head_dim - depth);
            barrier();  // the tiles may still be read
            for (uint e = lane; e < TILE_QUERIES * TILE; e += gl_WorkGroupSize.x) {
                const uint i = min(first_query + e / TILE, last_query);
                const uint d = e % TILE;
                if (d < count)
                    query_tile[e / TILE * PITCH + d] =
                        LOAD(query, ((batch * p.query_len + i) * p.heads + head) * p.head_dim + depth + d);
            }
            for (uint e = lane; e < keys * TILE; e += gl_WorkGroupSize.x) {
                const uint kv_row = (first_row + e / TILE) * p.kv_heads + kv_head;
                const uint d = e % TILE;
                if (d < count)
                    key_tile[e / TILE * PITCH + d] = KV_LOAD(key, kv_row * p.head_dim + depth + d, key_blocks);
            }
            barrier();
            for (uint d = 0; d < count; ++d) {
                float k[COLUMN_STEPS];
                [[unroll]] for (uint c = 0; c < COLUMN_STEPS; ++c)
                    k[c] = key_tile[(column + c * LANE_COLUMNS) * PITCH + d];
                [[unroll]] for (uint r = 0; r < QUERY_STEPS; ++r) {
                    const float q = query_tile[(row + r * LANE_ROWS) * PITCH + d];
                    [[unroll]] for (uint c = 0; c < COLUMN_STEPS; ++c) scores[r * COLUMN_STEPS + c] += q * k[c];
                }
            }
        }
        [[unroll]] for (uint r = 0; r < QUERY_STEPS; ++r) {
            const uint i = min(first_query + row + r * LANE_ROWS, last_query);
            [[unroll]] for (uint c = 0; c < COLUMN_STEPS; ++c) {
                const uint j = first_key + column + c * LANE_COLUMNS;
                float score = MINUS_INFINITY;
                if (j >= seen[r].x && j < seen[r].y) {
                    score = p.scale * scores[r * COLUMN_STEPS + c];
                    if ((MASK & kScoreSoftCap) != 0) score = soft_capped(score, p.soft_cap);
                    score += additive_mask(batch, head, i, j);
                }
                weight_tile[(row + r * LANE_ROWS) * PITCH + column + c * LANE_COLUMNS] = score;
            }
        }
        barrier();

        // weights = exp(scores − maximum)
        float largest = running_max;
        [[unroll]] for (uint k = 0; k < PART_KEYS; ++k)
            largest = max_keeping_nan(largest, weight_tile[softmax_base + k]);
        part_scratch[lane] = largest;
        barrier();
        for (uint part = 0; part < PARTS; ++part)
            largest = max_keeping_nan(largest, part_scratch[softmax_row * PARTS + part]);
        const float shift = largest == MINUS_INFINITY ? 0.0 : largest;  // −∞ − (−∞) would be NaN
        const float correction = exp(running_max - shift);
        running_max = largest;
        running_sum *= correction;
        [[unroll]] for (uint k = 0; k < PART_KEYS; ++k) {
            const float weight = exp(weight_tile[softmax_base + k] - shift);
            running_sum += weight;
            weight_tile[softmax_base + k] = weight;
        }
        if (lane % PARTS == 0) row_correction[softmax_row] = correction;  // all PARTS invocations have the same
        barrier();

        // sums = sums · correction + weights · value
        float corrections[QUERY_STEPS];
        [[unroll]] for (uint r = 0; r < QUERY_STEPS; ++r) corrections[r] = row_correction[row + r * LANE_ROWS];
        [[unroll]] for (uint t = 0; t < VALUE_TILES; ++t) {
            const uint first_sum = t * QUERY_STEPS * COLUMN_STEPS;
            [[unroll]] for (uint s = 0; s < QUERY_STEPS * COLUMN_STEPS; ++s)
                sums[first_sum + s] *= corrections[s / COLUMN_STEPS];
            if (t > 0) barrier();  // the tile may still be read
            for (uint e = lane; e < keys * TILE; e += gl_WorkGroupSize.x) {
                const uint kv_row = (first_row + e / TILE) * p.kv_heads + kv_head;
                const uint v = min(t * TILE + e % TILE, p.value_dim - 1);  // columns past the end are not stored
                key_tile[e / TILE * PITCH + e % TILE] = KV_LOAD(value, kv_row * p.value_dim + v, value_blocks);
            }
            barrier();
            for (uint j = 0; j < keys; ++j) {
                float v[COLUMN_STEPS];
                [[unroll]] for (uint c = 0; c < COLUMN_STEPS; ++c)
                    v[c] = key_tile[j * PITCH + column + c * LANE_COLUMNS];
                [[unroll]] for (uint r = 0; r < QUERY_STEPS; ++r) {
                    const float weight = weight_tile[(row + r * LANE_ROWS) * PITCH + j];
                    // 0 · NaN: the value of a key that this query does not see must not even be multiplied by 0.
                    const bool sees = SAME_KEYS_FOR_ALL || first_key + j >= seen[r].x && first_key + j < seen[r].y;
                    [[unroll]] for (uint c = 0; c < COLUMN_STEPS; ++c)
                        sums[first_sum + r * COLUMN_STEPS + c] += sees ? weight * v[c] : 0.0;
                }
            }
        }
    }

    part_scratch[lane] = running_sum + (lane % PARTS == 0 ? sink_weight(head, running_max) : 0.0);
    barrier();
    [[unroll]] for (uint r = 0; r < QUERY_STEPS; ++r) {
        const uint i = first_query + row + r * LANE_ROWS;
        if (i > last_query) continue;
        float total = 0.0;
        for (uint part = 0; part < PARTS; ++part) total += part_scratch[(row + r * LANE_ROWS) * PARTS + part];
        const uint base = ((batch * p.query_len + i) * p.heads + head) * p.value_dim;
        [[unroll]] for (uint t = 0; t < VALUE_TILES; ++t) {
            [[unroll]] for (uint c = 0; c < COLUMN_STEPS; ++c) {
                const uint v = t * TILE + column + c * LANE_COLUMNS;
                const float sum = sums[(t * QUERY_STEPS + r) * COLUMN_STEPS + c];
                if (v < p.value_dim) STORE(y, base + v, total == 0.0 ? 0.0 : sum / total);
            }
        }
    }
}
