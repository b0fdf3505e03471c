#version 460
// SPDX-License-Identifier: MIT
// partial[b, h, split, :]: decode_attention/split.comp's formula, operands, mask and partial results, for devices with subgroup
// arithmetic; head_dim and value_dim are even.
// A workgroup owns one split and HEADS of the heads that share a key head, so that a key is read once for all of them. Its
// subgroups take turns, KEYS keys each. Invocation l of a subgroup owns the pairs of elements l, l + size, l + 2 size … of
// queries, keys, values and sums: neighbours read neighbouring pairs, straight into registers. A subgroup adds up its scores by
// itself and keeps a maximum of its own, so that nothing waits until the end, where the sums of the subgroups are put together
// as lib/split.glsl does it with those of the splits.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "decode_attention/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kDecodeAttentionHeads) const uint HEADS = 1;
layout(constant_id = kDecodeAttentionHeadSteps) const uint HEAD_STEPS = 1;
layout(constant_id = kDecodeAttentionMask) const uint MASK = 0;
layout(constant_id = kDecodeAttentionValueSteps) const uint VALUE_STEPS = 1;
layout(constant_id = kDecodeAttentionSums) const uint SUMS = 1;
layout(push_constant) uniform Push { PART_OF_GRID DecodeAttentionPush p; };
#ifdef F16_WORDS
#define PAIR uint
#define LOAD_PAIR(buffer, i) unpackHalf2x16(buffer[i])
#else
#define PAIR vec2
#define LOAD_PAIR(buffer, i) buffer[i]
#endif
#include "lib/storage.glsl"
#include "lib/kv_cache.glsl"
#ifdef Q8_CACHE
#define KV_PAIR uint
#define KV_LOAD_PAIR(buffer, i, blocks) \
    (KV_SCALE(buffer, (i) / 16, blocks) * vec2(kv_byte(buffer[(i) / 2], 2 * ((i) & 1u)), kv_byte(buffer[(i) / 2], 2 * ((i) & 1u) + 1)))
#else
#define KV_PAIR PAIR
#define KV_LOAD_PAIR(buffer, i, blocks) LOAD_PAIR(buffer, i)
#endif
layout(std430, binding = kDecodeAttentionQuery) readonly buffer Query { PAIR query[]; };
layout(std430, binding = kDecodeAttentionKey) readonly buffer Key { KV_PAIR key[]; };
layout(std430, binding = kDecodeAttentionValue) readonly buffer Value { KV_PAIR value[]; };
layout(std430, binding = kDecodeAttentionAdditive) readonly buffer Additive { float additive[]; };
layout(std430, binding = kDecodeAttentionPages) readonly buffer Pages { uint pages[]; };
#include "decode_attention/words.glsl"
#include "lib/attention_mask.glsl"
#include "lib/numbers.glsl"
#include "lib/soft_cap.glsl"
const bool IN_PAGES = (MASK & kKeysInPages) != 0;
#include "lib/pages.glsl"
#include "lib/split.glsl"

const uint KEYS = 4;  // scores that a subgroup has under way at a time, for each head; their sums do not wait for each other

// MAX_SUBGROUPS · (value_dim + 16) floats: 4 subgroups, value_dim 64: 1.25 KiB
shared float part_maximum[kDecodeAttentionMaxSubgroups * kDecodeAttentionMaxHeads];  // [subgroup, head]
shared float part_total[kDecodeAttentionMaxSubgroups * kDecodeAttentionMaxHeads];
shared float part_sums[SUMS];  // [subgroup, value column], of one head

void main() {
    const uint group = p.heads / p.kv_heads;
    const uint chunks = (group + HEADS - 1) / HEADS;
    uint workgroup = linear_workgroup();
    const uint split_index = workgroup % p.splits;
    workgroup /= p.splits;
    const uint first = workgroup % chunks * HEADS;  // of the heads that share the key head
    const uint kv_head = workgroup / chunks % p.kv_heads;
    const uint batch = workgroup / chunks / p.kv_heads;
    if (batch >= p.batch) return;  // the whole workgroup leaves

    const Split split = split_of(visible_keys(batch, 0), split_index, 1);
    if (split.index == split.count) return;  // the whole workgroup leaves
    const uint begin = split.begin;
    const uint end = split.end;

    // NaN where subgroups are smaller than the driver said when this was specialized: their sums have no room, and pairs are left out.
    const bool are_as_said = gl_NumSubgroups * p.value_dim <= SUMS;
    const uint subgroups = are_as_said ? gl_NumSubgroups : 0;

    const uint first_row = batch * p.heads + kv_head * group + first;
    const uint lane = gl_SubgroupInvocationID;
    const uint key_blocks = p.kv_rows * p.kv_heads * (p.head_dim / 32);  // with Q8_CACHE
    const uint value_blocks = p.kv_rows * p.kv_heads * (p.value_dim / 32);
    const uint head_pairs = p.head_dim / 2;
    const uint value_pairs = p.value_dim / 2;
    vec2 q[HEADS * HEAD_STEPS];
    vec2 sums[HEADS * VALUE_STEPS];
    float maximum[HEADS];
    float total[HEADS];
    [[unroll]] for (uint h = 0; h < HEADS; ++h) {
        const uint head = kv_head * group + min(first + h, group - 1);  // past the end: the last again, not stored
        [[unroll]] for (uint s = 0; s < HEAD_STEPS; ++s) {
            const uint pair = lane + s * gl_SubgroupSize;
            q[h * HEAD_STEPS + s] = vec2(0.0);
            if (pair < head_pairs)
                q[h * HEAD_STEPS + s] = p.scale * LOAD_PAIR(query, (batch * p.heads + head) * head_pairs + pair);
        }
        [[unroll]] for (uint s = 0; s < VALUE_STEPS; ++s) sums[h * VALUE_STEPS + s] = vec2(0.0);
        maximum[h] = MINUS_INFINITY;
        total[h] = 0.0;
    }

    for (uint turn = gl_SubgroupID * KEYS; turn < end - begin; turn += gl_NumSubgroups * KEYS) {
        const uint first_key = begin + turn;
        float scores[KEYS * HEADS];
        uint kv_row[KEYS];
        [[unroll]] for (uint k = 0; k < KEYS; ++k) {
            const uint j = min(first_key + k, end - 1);  // past the end: the last again, with a weight of 0
            kv_row[k] = (row_offset(batch, p.mask.key_len, j, p.kv_rows) + j) * p.kv_heads + kv_head;
            const uint row = kv_row[k] * head_pairs;
            [[unroll]] for (uint h = 0; h < HEADS; ++h) scores[k * HEADS + h] = 0.0;
            [[unroll]] for (uint s = 0; s < HEAD_STEPS; ++s) {
                const uint pair = lane + s * gl_SubgroupSize;
                if (pair >= head_pairs) continue;
                const vec2 x = KV_LOAD_PAIR(key, row + pair, key_blocks);
                [[unroll]] for (uint h = 0; h < HEADS; ++h) scores[k * HEADS + h] += dot(q[h * HEAD_STEPS + s], x);
            }
        }
        [[unroll]] for (uint h = 0; h < HEADS; ++h) {
            const uint head = kv_head * group + min(first + h, group - 1);
            float largest = maximum[h];
            [[unroll]] for (uint k = 0; k < KEYS; ++k) {
                float product = subgroupAdd(scores[k * HEADS + h]);
                if ((MASK & kScoreSoftCap) != 0) product = soft_capped(product, p.soft_cap);
                float score = MINUS_INFINITY;
                if (first_key + k < end) score = product + additive_mask(batch, head, 0, first_key + k);
                scores[k * HEADS + h] = score;
                largest = max_keeping_nan(largest, score);
            }
            const float shift = largest == MINUS_INFINITY ? 0.0 : largest;  // −∞ − (−∞) would be NaN
            const float correction = exp(maximum[h] - shift);
            maximum[h] = largest;
            total[h] *= correction;
            [[unroll]] for (uint s = 0; s < VALUE_STEPS; ++s) sums[h * VALUE_STEPS + s] *= correction;
            [[unroll]] for (uint k = 0; k < KEYS; ++k) {
                const float weight = exp(scores[k * HEADS + h] - shift);
                scores[k * HEADS + h] = weight;
                total[h] += weight;
            }
        }
        [[unroll]] for (uint k = 0; k < KEYS; ++k) {
            const uint row = kv_row[k] * value_pairs;
            [[unroll]] for (uint s = 0; s < VALUE_STEPS; ++s) {
                const uint pair = lane + s * gl_SubgroupSize;
                if (pair >= value_pairs) continue;
                const vec2 x = KV_LOAD_PAIR(value, row + pair, value_blocks);
                [[unroll]] for (uint h = 0; h < HEADS; ++h) sums[h * VALUE_STEPS + s] += scores[k * HEADS + h] * x;
            }
        }
    }

    if (subgroupElect() && are_as_said)
        [[unroll]] for (uint h = 0; h < HEADS; ++h) {
            part_maximum[gl_SubgroupID * HEADS + h] = maximum[h];
            part_total[gl_SubgroupID * HEADS + h] = total[h];
        }
    [[unroll]] for (uint h = 0; h < HEADS; ++h) {
        barrier();  // maxima and totals are there; the sums may still be read
        float largest = MINUS_INFINITY;
        for (uint g = 0; g < subgroups; ++g) largest = max_keeping_nan(largest, part_maximum[g * HEADS + h]);
        const float shift = largest == MINUS_INFINITY ? 0.0 : largest;
        const float correction = exp(maximum[h] - shift);
        [[unroll]] for (uint s = 0; s < VALUE_STEPS; ++s) {
            const uint pair = lane + s * gl_SubgroupSize;
            if (pair >= value_pairs || !are_as_said) continue;
            part_sums[gl_SubgroupID * p.value_dim + pair * 2] = sums[h * VALUE_STEPS + s].x * correction;
            part_sums[gl_SubgroupID * p.value_dim + pair * 2 + 1] = sums[h * VALUE_STEPS + s].y * correction;
        }
        barrier();
        if (first + h >= group) continue;
        const uint base = partial_base(first_row + h, split.index);
        for (uint v = gl_LocalInvocationIndex; v < p.value_dim; v += gl_WorkGroupSize.x) {
            float sum = are_as_said ? 0.0 : NOT_A_NUMBER;
            for (uint g = 0; g < subgroups; ++g) sum += part_sums[g * p.value_dim + v];
            partial[base + v] = sum;
        }
        if (gl_LocalInvocationIndex == 0) {
            float sum = are_as_said ? 0.0 : NOT_A_NUMBER;
            for (uint g = 0; g < subgroups; ++g)
                sum += part_total[g * HEADS + h] * exp(part_maximum[g * HEADS + h] - shift);
            partial[base + p.value_dim + kPartialMaximum] = largest;
            partial[base + p.value_dim + kPartialSum] = sum;
        }
    }
    finish_rows(first_row, min(HEADS, group - first), split.count);
}
