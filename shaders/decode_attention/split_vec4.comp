#version 460
// SPDX-License-Identifier: MIT
// partial[b, h, split, :]: decode_attention/split.comp's formula, operands, mask and partial results, for head_dim and value_dim that are
// multiples of 4: four neighbours at a time are loaded and multiplied.
// A workgroup owns one split of one head and walks over it in tiles of as many keys as it has invocations. In the products of
// queries and keys, SHARERS neighbours share a key, so that they read 128 or 64 bytes in a row, and each has a part of the score
// of as many keys; an invocation then adds up the parts of its own key. In the sum of the values, COLUMNS neighbours own four
// columns each of every `groups`-th key. Keys that are not visible are not read: a cache may hold anything there.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "decode_attention/contract.h"
#include "lib/storage.glsl"
#include "lib/storage4.glsl"
#include "lib/kv_cache.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kDecodeAttentionColumns) const uint COLUMNS = 1;  // of four
layout(constant_id = kDecodeAttentionColumnSteps) const uint COLUMN_STEPS = 1;
layout(constant_id = kDecodeAttentionMask) const uint MASK = 0;
layout(push_constant) uniform Push { DecodeAttentionPush p; };
layout(std430, binding = kDecodeAttentionQuery) readonly buffer Query { ELEMENT4 query[]; };
layout(std430, binding = kDecodeAttentionKey) readonly buffer Key { KV_ELEMENT4 key[]; };
layout(std430, binding = kDecodeAttentionValue) readonly buffer Value { KV_ELEMENT4 value[]; };
layout(std430, binding = kDecodeAttentionKeyLengths) readonly buffer KeyLengths { int key_lengths[]; };
layout(std430, binding = kDecodeAttentionStarts) readonly buffer Starts { int starts[]; };
layout(std430, binding = kDecodeAttentionAdditive) readonly buffer Additive { float additive[]; };
#include "lib/attention_mask.glsl"
#include "lib/grid.glsl"
#include "lib/reduce.glsl"
#include "lib/soft_cap.glsl"
#include "lib/split.glsl"

const uint SHARERS = 8;
const uint VALUES = 8;  // of a group's keys, whose values are on their way at the same time
const uint PITCH = SHARERS + 1;  // odd: the parts of 32 keys then lie in 32 banks
// 128 · (9 + 1 + 4) · 4 + 64 · 16 bytes, and 1 KiB of the reductions: 9 KiB of shared memory
shared float score_parts[kDecodeAttentionMaxWorkgroup * PITCH];
shared vec4 query_row[kDecodeAttentionMaxHeadDim / 4];
shared float weights[kDecodeAttentionMaxWorkgroup];
shared vec4 group_sums[kDecodeAttentionMaxWorkgroup];

// The maximum of all invocations' values, in two steps: as few barriers as possible. Uses score_parts.
float tile_max(float value) {
    const uint lane = gl_LocalInvocationIndex;
    barrier();  // the parts are read
    score_parts[lane] = value;
    barrier();
    if (lane < gl_WorkGroupSize.x / SHARERS) {
        float largest = MINUS_INFINITY;
        [[unroll]] for (uint i = 0; i < SHARERS; ++i) largest = max_keeping_nan(largest, score_parts[lane * SHARERS + i]);
        weights[lane] = largest;
    }
    barrier();
    float largest = MINUS_INFINITY;
    for (uint i = 0; i < gl_WorkGroupSize.x / SHARERS; ++i) largest = max_keeping_nan(largest, weights[i]);
    return largest;
}

void main() {
    const uint workgroup = linear_workgroup();
    const uint batch_head = workgroup / p.splits;
    const uint head = batch_head % p.heads;
    const uint batch = batch_head / p.heads;
    if (batch >= p.batch) return;  // the whole workgroup leaves
    const uint kv_head = head / (p.heads / p.kv_heads);

    const uint tile = gl_WorkGroupSize.x;
    const uint lane = gl_LocalInvocationIndex;
    const uint column = lane % COLUMNS;
    const uint groups = gl_WorkGroupSize.x / COLUMNS;
    const uint group = lane / COLUMNS;
    const uint head_quads = p.head_dim / 4, value_quads = p.value_dim / 4;
    const uint key_blocks = p.batch * p.mask.key_len * p.kv_heads * (p.head_dim / 32);  // with Q8_CACHE
    const uint value_blocks = p.batch * p.mask.key_len * p.kv_heads * (p.value_dim / 32);

    const Split split = split_of(visible_keys(batch, 0), workgroup % p.splits);
    if (split.index == split.count) return;  // the whole workgroup leaves
    const uint begin = split.begin;
    const uint end = split.end;
    const uint base = partial_base(batch_head, split.index);

    const uint key_row = p.kv_heads * head_quads, value_row = p.kv_heads * value_quads;  // quads from a key to the next
    const uint first_key_quad = batch * p.mask.key_len * key_row + kv_head * head_quads;
    const uint first_value_quad = batch * p.mask.key_len * value_row + kv_head * value_quads;
    const uint shared_key = lane / SHARERS, sharer = lane % SHARERS, keys_at_a_time = gl_WorkGroupSize.x / SHARERS;

    for (uint d = lane; d < head_quads; d += tile) query_row[d] = LOAD4(query, batch_head * head_quads + d);
    float running_max = MINUS_INFINITY;
    float running_sum = 0.0;
    vec4 sums[COLUMN_STEPS];
    [[unroll]] for (uint c = 0; c < COLUMN_STEPS; ++c) sums[c] = vec4(0.0);
    for (uint first_key = begin; first_key < end; first_key += tile) {
        const uint keys = min(tile, end - first_key);

        uint key_quad[SHARERS];  // past the last key the last one again: it is not used
        float part[SHARERS];
        [[unroll]] for (uint k = 0; k < SHARERS; ++k) {
            key_quad[k] = first_key_quad + (first_key + min(shared_key + k * keys_at_a_time, keys - 1)) * key_row;
            part[k] = 0.0;
        }
        barrier();  // the query is complete; the weights of the tile before are read
        for (uint d = sharer; d < head_quads; d += SHARERS) {
            const vec4 q = query_row[d];
            [[unroll]] for (uint k = 0; k < SHARERS; ++k) part[k] = add_product(q, KV_LOAD4(key, key_quad[k] + d, key_blocks), part[k]);
        }
        [[unroll]] for (uint k = 0; k < SHARERS; ++k)
            score_parts[(shared_key + k * keys_at_a_time) * PITCH + sharer] = part[k];
        barrier();
        float score = 0.0;
        [[unroll]] for (uint i = 0; i < SHARERS; ++i) score += score_parts[lane * PITCH + i];
        score *= p.scale;
        if ((MASK & kScoreSoftCap) != 0) score = soft_capped(score, p.soft_cap);
        score = lane < keys ? score + additive_mask(batch, head, 0, first_key + lane) : MINUS_INFINITY;

        const float largest = max_keeping_nan(running_max, tile_max(score));
        const float shift = largest == MINUS_INFINITY ? 0.0 : largest;  // −∞ − (−∞) would be NaN
        const float correction = exp(running_max - shift);
        running_max = largest;
        const float weight = exp(score - shift);
        running_sum = running_sum * correction + weight;  // of this invocation's keys
        barrier();                                        // the parts of the maximum are read
        weights[lane] = weight;
        barrier();

        [[unroll]] for (uint c = 0; c < COLUMN_STEPS; ++c) sums[c] *= correction;
        // Columns past the end repeat the last ones and are not stored.
        const uint last_quad = value_quads - 1;
        const uint next_row = groups * value_row;
        uint at = first_value_quad + (first_key + group) * value_row;
        uint j = group;
        for (; j + (VALUES - 1) * groups < keys; j += VALUES * groups) {
            [[unroll]] for (uint c = 0; c < COLUMN_STEPS; ++c) {
                const uint quad = at + min(column + c * COLUMNS, last_quad);
                vec4 values[VALUES];
                [[unroll]] for (uint k = 0; k < VALUES; ++k) values[k] = KV_LOAD4(value, quad + k * next_row, value_blocks);
                [[unroll]] for (uint k = 0; k < VALUES; ++k) sums[c] = fma(vec4(weights[j + k * groups]), values[k], sums[c]);
            }
            at += VALUES * next_row;
        }
        for (; j < keys; j += groups) {
            [[unroll]] for (uint c = 0; c < COLUMN_STEPS; ++c)
                sums[c] = fma(vec4(weights[j]), KV_LOAD4(value, at + min(column + c * COLUMNS, last_quad), value_blocks), sums[c]);
            at += next_row;
        }
    }

    // The groups' sums are added up through shared memory, in rising order.
    [[unroll]] for (uint c = 0; c < COLUMN_STEPS; ++c) {
        const uint v = column + c * COLUMNS;
        barrier();  // the sums may still be read
        group_sums[lane] = sums[c];
        barrier();
        if (group == 0 && v < value_quads) {
            vec4 sum = vec4(0.0);
            for (uint g = 0; g < groups; ++g) sum += group_sums[g * COLUMNS + column];
            [[unroll]] for (uint i = 0; i < 4; ++i) partial[base + v * 4 + i] = sum[i];
        }
    }
    const float total = workgroup_sum(running_sum);
    if (lane == 0) {
        partial[base + p.value_dim + kPartialMaximum] = running_max;
        partial[base + p.value_dim + kPartialSum] = total;
    }
    finish_rows(batch_head, 1, split.count);
}
