#version 460
// SPDX-License-Identifier: MIT
// y[b, i, h, :] = Σ_j softmax_j(s[i, j]) · value[b, j, g, :]: attention/tile.comp's formula, operands and mask, for Vulkan
// devices that are CPUs, head_dim and value_dim multiples of 4 up to kCpuAttentionMaxDim.
// With SPLIT_KEYS: decode_attention/split.comp's formula, operands and partial results.
// A row is a query of one of the `group` = heads / kv_heads heads that share keys and values: row i · group + h % group.
// A workgroup owns gl_WorkGroupSize.x rows of one key head (and one split of the keys), an invocation one of them: its query
// and its sums stay in registers. All invocations walk over the same keys, so that they read the same addresses.
// What this is made for, seen in the machine code of Mesa 26.2's lavapipe:
// - shared memory and barriers are dear where invocations are lanes of a CPU: there are none here;
// - an element of a buffer costs some 10 instructions, for its bounds are checked alone, whether the lanes share it (then it
//   is loaded once) or not: rows of all heads of a group share it, and two halves are loaded as one word (1.3 times faster);
// - one key per turn and one row per invocation: with more of either the compiler moves all loads to the front and spills what
//   they bring. 2, 4 and 8 rows give 0.8, 1.0 and 0.9 times the speed, 2 and 4 keys 0.8 and 0.7 times, and both compile longer.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "cpu_devices/attention/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"
#define LOAD_WORDS
#include "lib/storage4.glsl"
#include "lib/kv_cache.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kCpuAttentionHeadDim) const uint HEAD_DIM = 4;
layout(constant_id = kCpuAttentionValueDim) const uint VALUE_DIM = 4;
layout(constant_id = kAttentionMask) const uint MASK = 0;
#ifdef SPLIT_KEYS
layout(push_constant) uniform Push { PART_OF_GRID DecodeAttentionPush p; };
layout(std430, binding = kDecodeAttentionY) writeonly buffer Y { ELEMENT4 y[]; };
layout(std430, binding = kDecodeAttentionPages) readonly buffer Pages { uint pages[]; };
#include "decode_attention/words.glsl"
const uint QUERY_LEN = 1;
#define SPLITS p.splits
#else
layout(push_constant) uniform Push { PART_OF_GRID AttentionPush p; };
layout(std430, binding = kAttentionY) writeonly buffer Y { ELEMENT4 y[]; };
layout(std430, binding = kAttentionPages) readonly buffer Pages { uint pages[]; };
layout(std430, binding = kAttentionKeyLengths) readonly buffer KeyLengths { int key_lengths[]; };
layout(std430, binding = kAttentionStarts) readonly buffer Starts { int starts[]; };
#define QUERY_LEN p.query_len
const uint SPLITS = 1;
#endif
layout(std430, binding = kAttentionQuery) readonly buffer Query { ELEMENT4 query[]; };
layout(std430, binding = kAttentionKey) readonly buffer Key { KV_ELEMENT4 key[]; };
layout(std430, binding = kAttentionValue) readonly buffer Value { KV_ELEMENT4 value[]; };
layout(std430, binding = kAttentionAdditive) readonly buffer Additive { float additive[]; };
#include "lib/attention_mask.glsl"
#include "lib/numbers.glsl"
#include "lib/soft_cap.glsl"
const bool IN_PAGES = (MASK & kKeysInPages) != 0;
#include "lib/pages.glsl"
#ifdef SPLIT_KEYS
#define ROW_PER_INVOCATION
#include "lib/split.glsl"
#endif

const uint HEAD_QUADS = HEAD_DIM / 4;
const uint VALUE_QUADS = VALUE_DIM / 4;

const float LOG2_E = 1.44269504;  // scores are kept times log2(e), in the scaled query: one product less per key for exp2()
#ifdef SPLIT_KEYS
const bool SAME_KEYS_FOR_ALL = true;  // there is one query
#else
const bool SAME_KEYS_FOR_ALL = (MASK & (kMaskCausal | kMaskWindow)) == 0;  // all queries of a sequence see the same
#endif

void main() {
    const uint group = p.heads / p.kv_heads;
    const uint rows = QUERY_LEN * group;
    const uint tiles = (rows + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
    uint workgroup = linear_workgroup();
    const uint split_index = workgroup % SPLITS;
    workgroup /= SPLITS;
    const uint first_row = workgroup % tiles * gl_WorkGroupSize.x;
    const uint last_row = min(first_row + gl_WorkGroupSize.x, rows) - 1;
    const uint kv_head = workgroup / tiles % p.kv_heads;
    const uint batch = workgroup / tiles / p.kv_heads;
    if (batch >= p.batch) return;

    const uint row = min(first_row + gl_LocalInvocationIndex, last_row);  // past the end: the last again, not stored
    const uint i = row / group;
    const uint head = kv_head * group + row % group;
    const uint query_row = (batch * QUERY_LEN + i) * p.heads + head;
#ifdef SPLIT_KEYS
    const uvec2 seen = visible_keys(batch, 0);
    const Split split = split_of(seen, split_index, 1);
    if (split.index == split.count) return;  // the whole workgroup leaves
    const uint first_key = split.begin, end_key = split.end;
#else
    const uvec2 seen = visible_keys(batch, i);
    const uint first_key = visible_keys(batch, first_row / group).x, end_key = visible_keys(batch, last_row / group).y;
#endif
    const uint key_blocks = p.kv_rows * p.kv_heads * (HEAD_DIM / 32);  // with Q8_CACHE
    const uint value_blocks = p.kv_rows * p.kv_heads * (VALUE_DIM / 32);
    vec4 q[HEAD_QUADS];
    [[unroll]] for (uint d = 0; d < HEAD_QUADS; ++d)
        q[d] = p.scale * LOG2_E * LOAD4(query, query_row * HEAD_QUADS + d);
    vec4 sums[VALUE_QUADS];
    [[unroll]] for (uint v = 0; v < VALUE_QUADS; ++v) sums[v] = vec4(0.0);
    float maximum = MINUS_INFINITY;
    float total = 0.0;

    uint offset = batch * p.mask.key_len;
    for (uint j = first_key; j < end_key; ++j) {
        if (IN_PAGES && (j == first_key || j % kPageLen == 0)) offset = row_offset(batch, p.mask.key_len, j, p.kv_rows);
        const uint kv_row = (offset + j) * p.kv_heads + kv_head;
        vec4 products = vec4(0.0);  // four chains of additions, not one that waits for itself
        [[unroll]] for (uint d = 0; d < HEAD_QUADS; ++d)
            products = fma(q[d], KV_LOAD4(key, kv_row * HEAD_QUADS + d, key_blocks), products);
        float score = (products.x + products.y) + (products.z + products.w);
        if ((MASK & kScoreSoftCap) != 0) score = soft_capped(score, p.soft_cap * LOG2_E);

        const bool sees = SAME_KEYS_FOR_ALL || j >= seen.x && j < seen.y;
        score = sees ? score + LOG2_E * additive_mask(batch, head, i, j) : MINUS_INFINITY;
        const float largest = max_keeping_nan(maximum, score);
        const float shift = largest == MINUS_INFINITY ? 0.0 : largest;  // −∞ − (−∞) would be NaN
        const float correction = exp2(maximum - shift);
        const float weight = exp2(score - shift);
        maximum = largest;
        total = total * correction + weight;
        [[unroll]] for (uint v = 0; v < VALUE_QUADS; ++v) {
            const vec4 x = KV_LOAD4(value, kv_row * VALUE_QUADS + v, value_blocks);
            sums[v] = fma(vec4(weight), sees ? x : vec4(0.0), sums[v] * correction);  // not 0 · NaN
        }
    }

    if (first_row + gl_LocalInvocationIndex > last_row) return;
#ifdef SPLIT_KEYS
    if (split.count > 1) {
        const uint base = partial_base(query_row, split.index);
        [[unroll]] for (uint v = 0; v < VALUE_DIM; ++v) partial[base + v] = sums[v / 4][v % 4];
        partial[base + VALUE_DIM + kPartialMaximum] = maximum / LOG2_E;
        partial[base + VALUE_DIM + kPartialSum] = total;
        memoryBarrierBuffer();  // this is there before the split is counted
        if (!is_last_split(query_row, split.count)) return;
        memoryBarrierBuffer();
        const float shift = shift_of(query_row, split.count);
        maximum = shift * LOG2_E;
        [[unroll]] for (uint v = 0; v < VALUE_QUADS; ++v) sums[v] = vec4(0.0);
        total = 0.0;
        for (uint s = 0; s < split.count; ++s) {
            const uint from = partial_base(query_row, s);
            const float factor = exp(partial[from + VALUE_DIM + kPartialMaximum] - shift);
            total += factor * partial[from + VALUE_DIM + kPartialSum];
            [[unroll]] for (uint v = 0; v < VALUE_DIM; ++v) sums[v / 4][v % 4] += factor * partial[from + v];
        }
    }
#endif
    total += sink_weight(head, maximum / LOG2_E);
    [[unroll]] for (uint v = 0; v < VALUE_QUADS; ++v)
        STORE4(y, query_row * VALUE_QUADS + v, total == 0.0 ? vec4(0.0) : sums[v] / total);
}
