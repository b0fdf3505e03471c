#version 460
// SPDX-License-Identifier: MIT
// y[b, i, h, :] = Σ_j softmax_j(s[i, j]) · value[b, j, g, :]: attention.comp's formula, operands and mask, for Vulkan
// devices that are CPUs, head_dim and value_dim multiples of 4 up to kAttentionDirectMaxDim.
// No shared memory and no barrier: both are dear where invocations are lanes of a CPU. A workgroup owns gl_WorkGroupSize.x
// queries of one head, an invocation one of them: its query and its sums stay in registers. All invocations walk over the
// same keys, so that they read the same addresses.
// Gain over attention.comp with 8 heads: 24 queries and keys, head_dim 32: 2.4 times on lavapipe, 2.3 on SwiftShader; one query
// and 512 keys, head_dim 64: 3.3 and 3.0 times; 512 queries: 1.5 and 1.8 times (docs/performance.md).
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "interface/attention.h"
#include "lib/storage.glsl"
#include "lib/storage4.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kAttentionDirectHeadDim) const uint HEAD_DIM = 4;
layout(constant_id = kAttentionDirectValueDim) const uint VALUE_DIM = 4;
layout(constant_id = kAttentionMask) const uint MASK = 0;
layout(push_constant) uniform Push { AttentionPush p; };
layout(std430, binding = kAttentionQuery) readonly buffer Query { ELEMENT4 query[]; };
layout(std430, binding = kAttentionKey) readonly buffer Key { ELEMENT4 key[]; };
layout(std430, binding = kAttentionValue) readonly buffer Value { ELEMENT4 value[]; };
layout(std430, binding = kAttentionKeyLengths) readonly buffer KeyLengths { int key_lengths[]; };
layout(std430, binding = kAttentionStarts) readonly buffer Starts { int starts[]; };
layout(std430, binding = kAttentionAdditive) readonly buffer Additive { float additive[]; };
layout(std430, binding = kAttentionY) STORED buffer Y { ELEMENT y[]; };
#include "lib/attention_mask.glsl"
#include "lib/grid.glsl"
#include "lib/numbers.glsl"

const uint HEAD_QUADS = HEAD_DIM / 4;
const uint VALUE_QUADS = VALUE_DIM / 4;

void main() {
    const uint query_tiles = (p.query_len + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
    const uint workgroup = linear_workgroup();
    const uint first_query = workgroup % query_tiles * gl_WorkGroupSize.x;
    const uint head = workgroup / query_tiles % p.heads;
    const uint batch = workgroup / query_tiles / p.heads;
    if (batch >= p.batch) return;
    const uint kv_head = head / (p.heads / p.kv_heads);
    const uint last_query = min(first_query + gl_WorkGroupSize.x, p.query_len) - 1;
    const uint i = min(first_query + gl_LocalInvocationIndex, last_query);  // past the end: the last again, not stored

    const uint query_row = (batch * p.query_len + i) * p.heads + head;
    vec4 q[HEAD_QUADS];
    [[unroll]] for (uint d = 0; d < HEAD_QUADS; ++d) q[d] = LOAD4(query, query_row * HEAD_QUADS + d);
    vec4 sums[VALUE_QUADS];
    [[unroll]] for (uint v = 0; v < VALUE_QUADS; ++v) sums[v] = vec4(0.0);
    float maximum = MINUS_INFINITY;
    float total = 0.0;

    const uvec2 seen = visible_keys(batch, i);
    const uint end_key = visible_keys(batch, last_query).y;
    for (uint j = visible_keys(batch, first_query).x; j < end_key; ++j) {
        const uint kv_row = (batch * p.mask.key_len + j) * p.kv_heads + kv_head;
        vec4 products = vec4(0.0);  // four chains of additions, not one that waits for itself
        [[unroll]] for (uint d = 0; d < HEAD_QUADS; ++d) products += q[d] * LOAD4(key, kv_row * HEAD_QUADS + d);
        const float product = (products.x + products.y) + (products.z + products.w);

        const bool sees = j >= seen.x && j < seen.y;
        float score = MINUS_INFINITY;
        if (sees) score = p.scale * product + additive_mask(batch, head, i, j);
        const float largest = max_keeping_nan(maximum, score);
        const float shift = largest == MINUS_INFINITY ? 0.0 : largest;  // −∞ − (−∞) would be NaN
        const float correction = exp(maximum - shift);
        const float weight = exp(score - shift);
        maximum = largest;
        total = total * correction + weight;
        [[unroll]] for (uint v = 0; v < VALUE_QUADS; ++v) {
            const vec4 term = weight * LOAD4(value, kv_row * VALUE_QUADS + v);
            sums[v] = sums[v] * correction + (sees ? term : vec4(0.0));  // not 0 · NaN
        }
    }

    if (first_query + gl_LocalInvocationIndex > last_query) return;
    [[unroll]] for (uint v = 0; v < VALUE_DIM; ++v)
        STORE(y, query_row * VALUE_DIM + v, total == 0.0 ? 0.0 : sums[v / 4][v % 4] / total);
}
