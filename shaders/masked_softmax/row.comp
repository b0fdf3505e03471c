#version 460
// SPDX-License-Identifier: MIT
// weights[b, h, i, j] = exp(s[j] − m) / Σ_k exp(s[k] − m),  m = max_k s[k],  s[j] = scores[b, h, i, j] + additive mask,
// over the keys that query i sees, and the head's sink in the sums; 0 for all others, and for a query that sees none (or only
// keys with s = −∞).
// scores, weights: [batch, heads, query_len, key_len] float32; the mask is described in lib/attention_mask.glsl.
// Vaswani et al. 2017, sections 3.2.1 and 3.2.3. Three passes over the row: maximum, sum, weights. Keys that are not
// visible are not read; a NaN among the visible ones makes all visible ones NaN.
// One workgroup per row (b, h, i); an invocation owns the keys j ≡ its index modulo the workgroup's size.
#extension GL_GOOGLE_include_directive : require
#include "masked_softmax/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kMaskedSoftmaxMask) const uint MASK = 0;
layout(push_constant) uniform Push { PART_OF_GRID MaskedSoftmaxPush p; };
layout(std430, binding = kMaskedSoftmaxScores) readonly buffer Scores { float scores[]; };
layout(std430, binding = kMaskedSoftmaxKeyLengths) readonly buffer KeyLengths { int key_lengths[]; };
layout(std430, binding = kMaskedSoftmaxStarts) readonly buffer Starts { int starts[]; };
layout(std430, binding = kMaskedSoftmaxAdditive) readonly buffer Additive { float additive[]; };
layout(std430, binding = kMaskedSoftmaxWeights) writeonly buffer Weights { float weights[]; };
#include "lib/attention_mask.glsl"
#include "lib/reduce.glsl"

void main() {
    const uint row = linear_workgroup();
    const uint query = row % p.query_len;
    const uint head = row / p.query_len % p.heads;
    const uint batch = row / p.query_len / p.heads;
    if (batch >= p.batch) return;  // the whole workgroup leaves

    const uint base = row * p.mask.key_len;
    const uvec2 keys = visible_keys(batch, query);
    const uint lane = gl_LocalInvocationIndex;

    float largest = MINUS_INFINITY;
    for (uint j = keys.x + lane; j < keys.y; j += gl_WorkGroupSize.x)
        largest = max_keeping_nan(largest, scores[base + j] + additive_mask(batch, head, query, j));
    largest = workgroup_max(largest);
    const float shift = largest == MINUS_INFINITY ? 0.0 : largest;  // −∞ − (−∞) would be NaN

    float total = 0.0;
    for (uint j = keys.x + lane; j < keys.y; j += gl_WorkGroupSize.x)
        total += exp(scores[base + j] + additive_mask(batch, head, query, j) - shift);
    total = workgroup_sum(total);
    if (total != 0.0) total += sink_weight(head, largest);

    for (uint j = lane; j < p.mask.key_len; j += gl_WorkGroupSize.x) {
        float weight = 0.0;
        if (j >= keys.x && j < keys.y && total != 0.0)
            weight = exp(scores[base + j] + additive_mask(batch, head, query, j) - shift) / total;
        weights[base + j] = weight;
    }
}
