#version 460
// SPDX-License-Identifier: MIT
// partial[b, h, split, :] = { Σ_j exp(s[j] − m) · value[b, j, g, :],  m,  Σ_j exp(s[j] − m) },  m = max_j s[j],
// s[j] = scale · query[b, 0, h, :] · key[b, j, g, :] + additive mask, g = h / (heads / kv_heads) (with a soft cap, the product is
// capped as lib/soft_cap.glsl says before the mask is added), over the keys j of the split that the one query sees. lib/split.glsl
// says which keys those are, and how the splits become y: [batch, 1, heads, value_dim].
// query: [batch, 1, heads, head_dim], key: [batch, key_len, kv_heads, head_dim],
// value: [batch, key_len, kv_heads, value_dim], storage as lib/storage.glsl says;
// partial: [batch, heads, splits, value_dim + 2] float32; the mask is described in lib/attention_mask.glsl.
// Dao et al. 2023, "Flash-Decoding"; one-pass softmax: Milakov and Gimelshein 2018.
// A workgroup owns one split of one head and walks over it in tiles of as many keys as it has invocations. In the
// scores, an invocation owns a key; in the sum, COLUMNS neighbours own the columns of every `groups`-th key. Keys that
// are not visible are not read: a cache may hold anything there.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "decode_attention/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"
#include "lib/kv_cache.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kDecodeAttentionColumns) const uint COLUMNS = 1;
layout(constant_id = kDecodeAttentionColumnSteps) const uint COLUMN_STEPS = 1;
layout(constant_id = kDecodeAttentionMask) const uint MASK = 0;
layout(push_constant) uniform Push { PART_OF_GRID DecodeAttentionPush p; };
layout(std430, binding = kDecodeAttentionQuery) readonly buffer Query { ELEMENT query[]; };
layout(std430, binding = kDecodeAttentionKey) readonly buffer Key { KV_ELEMENT key[]; };
layout(std430, binding = kDecodeAttentionValue) readonly buffer Value { KV_ELEMENT value[]; };
layout(std430, binding = kDecodeAttentionAdditive) readonly buffer Additive { float additive[]; };
layout(std430, binding = kDecodeAttentionPages) readonly buffer Pages { uint pages[]; };
#include "decode_attention/words.glsl"
#include "lib/attention_mask.glsl"
#include "lib/reduce.glsl"
#include "lib/soft_cap.glsl"
const bool IN_PAGES = (MASK & kKeysInPages) != 0;
#include "lib/pages.glsl"
#include "lib/split.glsl"

// 128 · 17 · 4 + 576 · 4 + 2 · 128 · 4 bytes, and 1 KiB of the reductions: 13 KiB of shared memory. Depth 32 would take 21
// KiB.
const uint DEPTH = 16;         // of the keys at a time: 64 or 32 bytes in a row
const uint PITCH = DEPTH + 1;  // not 16: 32 keys then lie in 32 banks
shared float key_tile[kDecodeAttentionMaxWorkgroup * PITCH];
shared float query_row[kDecodeAttentionMaxHeadDim];
shared float weights[kDecodeAttentionMaxWorkgroup];
shared uint kv_rows[IN_PAGES ? kDecodeAttentionMaxWorkgroup : 1];  // of the keys of a tile

// The row of key `index` of a tile.
uint kv_row(uint batch, uint first_key, uint index) {
    if (IN_PAGES) return kv_rows[index];
    return batch * p.mask.key_len + first_key + index;
}

void main() {
    const uint workgroup = linear_workgroup();
    const uint batch_head = workgroup / p.splits;
    const uint head = batch_head % p.heads;
    const uint batch = batch_head / p.heads;
    if (batch >= p.batch) return;  // the whole workgroup leaves
    const uint kv_head = head / (p.heads / p.kv_heads);
    const uint key_blocks = p.kv_rows * p.kv_heads * (p.head_dim / 32);  // with Q8_CACHE
    const uint value_blocks = p.kv_rows * p.kv_heads * (p.value_dim / 32);

    const uint tile = gl_WorkGroupSize.x;
    const uint lane = gl_LocalInvocationIndex;
    const uint column = lane % COLUMNS;
    const uint groups = gl_WorkGroupSize.x / COLUMNS;
    const uint group = lane / COLUMNS;

    const Split split = split_of(visible_keys(batch, 0), workgroup % p.splits, 1);
    if (split.index == split.count) return;  // the whole workgroup leaves
    const uint begin = split.begin;
    const uint end = split.end;
    const uint base = partial_base(batch_head, split.index);

    for (uint d = lane; d < p.head_dim; d += tile) query_row[d] = LOAD(query, batch_head * p.head_dim + d);
    float running_max = MINUS_INFINITY;
    float running_sum = 0.0;
    float sums[COLUMN_STEPS];
    [[unroll]] for (uint c = 0; c < COLUMN_STEPS; ++c) sums[c] = 0.0;
    for (uint first_key = begin; first_key < end; first_key += tile) {
        const uint keys = min(tile, end - first_key);
        if (IN_PAGES) {
            barrier();  // those of the tile before may still be read
            const uint j = first_key + min(lane, keys - 1);
            kv_rows[lane] = row_offset(batch, p.mask.key_len, j, p.kv_rows) + j;
        }

        float score = 0.0;
        for (uint depth = 0; depth < p.head_dim; depth += DEPTH) {
            const uint count = min(DEPTH, p.head_dim - depth);
            barrier();  // the tile may still be read; the query is complete
            for (uint e = lane; e < keys * DEPTH; e += tile) {
                const uint from = (kv_row(batch, first_key, e / DEPTH) * p.kv_heads + kv_head) * p.head_dim;
                const uint d = e % DEPTH;
                if (d < count) key_tile[e / DEPTH * PITCH + d] = KV_LOAD(key, from + depth + d, key_blocks);
            }
            barrier();
            for (uint d = 0; d < count; ++d) score += query_row[depth + d] * key_tile[lane * PITCH + d];
        }
        score *= p.scale;
        if ((MASK & kScoreSoftCap) != 0) score = soft_capped(score, p.soft_cap);
        score = lane < keys ? score + additive_mask(batch, head, 0, first_key + lane) : MINUS_INFINITY;

        const float largest = max_keeping_nan(running_max, workgroup_max(score));
        const float shift = largest == MINUS_INFINITY ? 0.0 : largest;  // −∞ − (−∞) would be NaN
        const float correction = exp(running_max - shift);
        running_max = largest;
        const float weight = exp(score - shift);
        weights[lane] = weight;
        running_sum = running_sum * correction + workgroup_sum(weight);  // its barriers publish the weights

        [[unroll]] for (uint c = 0; c < COLUMN_STEPS; ++c) sums[c] *= correction;
        for (uint j = group; j < keys; j += groups) {
            const uint value_row = (kv_row(batch, first_key, j) * p.kv_heads + kv_head) * p.value_dim;
            [[unroll]] for (uint c = 0; c < COLUMN_STEPS; ++c) {
                const uint v = column + c * COLUMNS;
                if (v < p.value_dim) sums[c] += weights[j] * KV_LOAD(value, value_row + v, value_blocks);
            }
        }
    }

    // The groups' sums are added up through shared memory, in rising order.
    [[unroll]] for (uint c = 0; c < COLUMN_STEPS; ++c) {
        const uint v = column + c * COLUMNS;
        barrier();  // the weights may still be read
        weights[lane] = sums[c];
        barrier();
        if (group == 0 && v < p.value_dim) {
            float sum = 0.0;
            for (uint g = 0; g < groups; ++g) sum += weights[g * COLUMNS + column];
            partial[base + v] = sum;
        }
    }
    if (lane == 0) {
        partial[base + p.value_dim + kPartialMaximum] = running_max;
        partial[base + p.value_dim + kPartialSum] = running_sum;
    }
    finish_rows(batch_head, 1, split.count);
}
