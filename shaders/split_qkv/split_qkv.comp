#version 460
// SPDX-License-Identifier: MIT
// Parts qkv[b, i]: the first `heads` heads, turned as rope/rope.comp turns them, to query[b, i]; the next kv_heads, likewise, to
// key_cache[b, starts[b] + i], the last kv_heads, not turned, to value_cache[b, starts[b] + i]. A position outside the table gives NaN
// and reads nothing, one outside the caches is not written to them. With norms the heads of queries and keys are normed before, each
// with (gain[i] + gain_offset) · x[i] / √(mean(x²) + eps); those of values, if they are, too, with a factor of 1.
// qkv: [batch, len, heads + 2 · kv_heads, head_dim], query: [batch, len, heads, head_dim], caches: [batch, capacity, kv_heads,
// head_dim] or in pages (lib/pages.glsl), gains: [head_dim]; storage as lib/storage.glsl says; table: f32 [positions, rotary_dim] or absent; starts: i32 [batch] or absent (0).
// Su et al. 2021, eq. 34. One dispatch in place of the five that two turns, two appends and a split would be: of a decode step's
// nodes each costs more than its arithmetic.
// One workgroup per token and heads_per_workgroup of its heads; an invocation owns the pairs k ≡ its index modulo the workgroup's
// size of all these heads, so that an angle is read once for all of them, and the elements that are only copied likewise.
#extension GL_GOOGLE_include_directive : require
#include "split_qkv/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kSplitQkvHasStarts) const uint HAS_STARTS = 0;
layout(constant_id = kSplitQkvHasTable) const uint HAS_TABLE = 0;
layout(constant_id = kSplitQkvInterleaved) const uint INTERLEAVED = 0;
layout(constant_id = kSplitQkvHasNorms) const uint HAS_NORMS = 0;
layout(constant_id = kSplitQkvHasPages) const uint HAS_PAGES = 0;
layout(push_constant) uniform Push { PART_OF_GRID SplitQkvPush p; };
layout(std430, binding = kSplitQkvQkv) readonly buffer Qkv { ELEMENT qkv[]; };
layout(std430, binding = kSplitQkvTable) readonly buffer Table { float table[]; };
layout(std430, binding = kSplitQkvQuery) STORED buffer Query { ELEMENT query[]; };
layout(std430, binding = kSplitQkvKeyCache) STORED buffer KeyCache { ELEMENT key_cache[]; };
layout(std430, binding = kSplitQkvValueCache) STORED buffer ValueCache { ELEMENT value_cache[]; };
layout(std430, binding = kSplitQkvQueryGain) readonly buffer QueryGain { ELEMENT query_gain[]; };
layout(std430, binding = kSplitQkvKeyGain) readonly buffer KeyGain { ELEMENT key_gain[]; };
#ifdef PACKED
// pages and starts, whichever are there, behind one another: with a binding for each there are 9, and not every device allows more than 8.
layout(std430, binding = kSplitQkvWords) readonly buffer Words { uint words[]; };
#define pages words
#define START(sequence) words[(HAS_PAGES == 1 ? p.tokens / p.len * (p.capacity / kPageLen) : 0) + sequence]
#else
layout(std430, binding = kSplitQkvStarts) readonly buffer Starts { int starts[]; };
layout(std430, binding = kSplitQkvPages) readonly buffer Pages { uint pages[]; };
#define START(sequence) uint(starts[sequence])
#endif
const bool IN_PAGES = HAS_PAGES == 1;
#include "lib/pages.glsl"
#include "lib/reduce.glsl"

shared float head_scale[kSplitQkvMaxHeads];  // 1 / √(mean(x²) + eps)

const uint QUERIES = 0, KEYS = 1, VALUES = 2, NOWHERE = 3;

// Where a head goes: its part, and the index of its first element there.
struct Place {
    uint part, first;
};

void put(Place place, uint i, float value) {
    const uint at = place.first + i;
    if (place.part == QUERIES) STORE(query, at, value);
    if (place.part == KEYS) STORE(key_cache, at, value);
    if (place.part == VALUES) STORE(value_cache, at, value);
}

// cache_row: the token's row of the caches.
Place place_of(uint head, uint token, uint cache_row) {
    if (head < p.heads) return Place(QUERIES, (token * p.heads + head) * p.head_dim);
    if (cache_row == NO_ROW) return Place(NOWHERE, 0);
    const uint kv_head = (head - p.heads) % p.kv_heads;
    const uint first = (cache_row * p.kv_heads + kv_head) * p.head_dim;
    return Place(head < p.heads + p.kv_heads ? KEYS : VALUES, first);
}

// The factor of element i of a head.
float norm_of(uint head, uint first_head, uint i) {
    if (HAS_NORMS == 0) return 1.0;
    if (head >= p.heads + p.kv_heads) return HAS_NORMS == 2 ? head_scale[head - first_head] : 1.0;
    const float gain = head < p.heads ? LOAD(query_gain, i) : LOAD(key_gain, i);
    return (gain + p.gain_offset) * head_scale[head - first_head];
}

void main() {
    const uint all_heads = p.heads + 2 * p.kv_heads, turned_heads = HAS_TABLE == 1 ? p.heads + p.kv_heads : 0;
    const uint head_blocks = (all_heads + p.heads_per_workgroup - 1) / p.heads_per_workgroup;
    const uint token = linear_workgroup() / head_blocks;
    if (token >= p.tokens) return;
    const uint first_head = linear_workgroup() % head_blocks * p.heads_per_workgroup;
    const uint end_head = min(first_head + p.heads_per_workgroup, all_heads);

    // Modulo 2^32 a negative position is larger than any table or cache, and start + i cannot wrap past that: i < 2^31.
    uint position = token % p.len;
    if (HAS_STARTS == 1) position += START(token / p.len);
    const uint cache_row = row_to_write(token / p.len, p.capacity, position, p.rows);
    const bool known = HAS_TABLE == 0 || position < p.positions;
    const uint half_dim = HAS_TABLE == 1 ? p.rotary_dim / 2 : 0;

    const uint normed_heads = HAS_NORMS == 2 ? all_heads : HAS_NORMS == 1 ? p.heads + p.kv_heads : 0;
    for (uint head = first_head; head < min(end_head, normed_heads); ++head) {
        const uint from = (token * all_heads + head) * p.head_dim;
        float squares = 0.0;
        for (uint i = gl_LocalInvocationIndex; i < p.head_dim; i += gl_WorkGroupSize.x) {
            const float x = LOAD(qkv, from + i);
            squares += x * x;
        }
        const float mean = workgroup_sum(squares) / float(p.head_dim);
        if (gl_LocalInvocationIndex == 0) head_scale[head - first_head] = inversesqrt(mean + p.eps);
    }
    if (HAS_NORMS >= 1) barrier();

    if (first_head < turned_heads) {
        const uint angles = known ? position * p.rotary_dim : 0;
        for (uint k = gl_LocalInvocationIndex; k < half_dim; k += gl_WorkGroupSize.x) {
            const float c = known ? table[angles + k] : NOT_A_NUMBER;
            const float s = known ? table[angles + half_dim + k] : NOT_A_NUMBER;
            const uint u_at = INTERLEAVED == 1 ? 2 * k : k, v_at = INTERLEAVED == 1 ? 2 * k + 1 : k + half_dim;
            for (uint head = first_head; head < min(end_head, turned_heads); ++head) {
                const Place place = place_of(head, token, cache_row);
                const uint from = (token * all_heads + head) * p.head_dim;
                const float u = LOAD(qkv, from + u_at) * norm_of(head, first_head, u_at);
                const float v = LOAD(qkv, from + v_at) * norm_of(head, first_head, v_at);
                put(place, u_at, u * c - v * s);
                put(place, v_at, v * c + u * s);
            }
        }
    }
    for (uint head = first_head; head < end_head; ++head) {
        const bool turned = head < turned_heads;
        const Place place = place_of(head, token, cache_row);
        const uint from = (token * all_heads + head) * p.head_dim;
        for (uint i = (turned ? 2 * half_dim : 0) + gl_LocalInvocationIndex; i < p.head_dim; i += gl_WorkGroupSize.x)
            put(place, i,
                known || !turned
                    ? LOAD(qkv, from + i) * norm_of(head, first_head, i)
                    : NOT_A_NUMBER);
    }
}
