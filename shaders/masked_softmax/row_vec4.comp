#version 460
// SPDX-License-Identifier: MIT
// masked_softmax/row.comp for rows that are multiples of 4, four keys at a time:
// weights[b, h, i, j] = exp(s[j] − m) / Σ_k exp(s[k] − m),  m = max_k s[k],  s[j] = scores[b, h, i, j] + additive mask,
// over the keys that query i sees, and the head's sink in the sums; 0 for all others, and for a query that sees none (or only
// keys with s = −∞).
// scores, weights: [batch, heads, query_len, key_len] float32; the mask is described in lib/attention_mask.glsl.
// A quad may be read though only some of its keys are visible; what the others hold goes nowhere.
// One workgroup per row (b, h, i); an invocation owns the quads ≡ its index modulo the workgroup's size and keeps KEPT of them: first
// their scores, then their exponentials.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "masked_softmax/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kMaskedSoftmaxMask) const uint MASK = 0;
layout(constant_id = kMaskedSoftmaxKept) const uint KEPT = 0;
layout(push_constant) uniform Push { PART_OF_GRID MaskedSoftmaxPush p; };
layout(std430, binding = kMaskedSoftmaxScores) readonly buffer Scores { vec4 scores[]; };
layout(std430, binding = kMaskedSoftmaxKeyLengths) readonly buffer KeyLengths { int key_lengths[]; };
layout(std430, binding = kMaskedSoftmaxStarts) readonly buffer Starts { int starts[]; };
layout(std430, binding = kMaskedSoftmaxAdditive) readonly buffer Additive { float additive[]; };
layout(std430, binding = kMaskedSoftmaxWeights) writeonly buffer Weights { vec4 weights[]; };
#include "lib/attention_mask.glsl"
#include "lib/quads.glsl"
#include "lib/reduce.glsl"

// Where a row lies, and what its query sees.
struct Row {
    uint batch, head, query;
    uint base;   // its first quad
    uvec2 keys;  // visible: x … y − 1
};

// `seen` for the visible keys of the quad, `otherwise` for the others.
vec4 where_visible(Row row, uint i, vec4 seen, float otherwise) {
    if ((MASK & ~(kMaskAdditive | kScoreSinks)) == 0) return seen;
    const uvec4 key = 4 * i + uvec4(0, 1, 2, 3);
    return vec4(key.x >= row.keys.x && key.x < row.keys.y ? seen.x : otherwise,
                key.y >= row.keys.x && key.y < row.keys.y ? seen.y : otherwise,
                key.z >= row.keys.x && key.z < row.keys.y ? seen.z : otherwise,
                key.w >= row.keys.x && key.w < row.keys.y ? seen.w : otherwise);
}

vec4 score(Row row, uint i) {
    vec4 s = scores[row.base + i];
    if ((MASK & kMaskAdditive) != 0)
        [[unroll]] for (uint c = 0; c < 4; ++c) s[c] += additive_mask(row.batch, row.head, row.query, 4 * i + c);
    return where_visible(row, i, s, MINUS_INFINITY);
}

vec4 max_of(vec4 a, vec4 b) {
    return vec4(max_keeping_nan(a.x, b.x), max_keeping_nan(a.y, b.y), max_keeping_nan(a.z, b.z), max_keeping_nan(a.w, b.w));
}

void main() {
    const uint index = linear_workgroup();
    Row row;
    row.query = index % p.query_len;
    row.head = index / p.query_len % p.heads;
    row.batch = index / p.query_len / p.heads;
    if (row.batch >= p.batch) return;  // the whole workgroup leaves
    const uint quads = p.mask.key_len / 4;
    row.base = index * quads;
    row.keys = visible_keys(row.batch, row.query);

    vec4 kept[KEPT_SIZE];
    vec4 maxima = vec4(MINUS_INFINITY);
    [[unroll]] for (uint k = 0; k < KEPT; ++k) maxima = max_of(maxima, kept[k] = score(row, kept_quad(k)));
    for (uint i = first_unkept_quad(); i < quads; i += gl_WorkGroupSize.x) maxima = max_of(maxima, score(row, i));
    const vec2 largest_two = max_of(maxima, maxima.zwxy).xy;
    const float largest = workgroup_max(max_keeping_nan(largest_two.x, largest_two.y));
    const float shift = largest == MINUS_INFINITY ? 0.0 : largest;  // −∞ − (−∞) would be NaN

    vec4 totals = vec4(0.0);
    [[unroll]] for (uint k = 0; k < KEPT; ++k) totals += kept[k] = exp(kept[k] - shift);
    for (uint i = first_unkept_quad(); i < quads; i += gl_WorkGroupSize.x) totals += exp(score(row, i) - shift);
    float total = workgroup_sum(sum_of(totals));
    if (total != 0.0) total += sink_weight(row.head, largest);
    const float share = total == 0.0 ? 0.0 : 1.0 / total;

    [[unroll]] for (uint k = 0; k < KEPT; ++k)
        weights[row.base + kept_quad(k)] = where_visible(row, kept_quad(k), kept[k] * share, 0.0);
    for (uint i = first_unkept_quad(); i < quads; i += gl_WorkGroupSize.x)
        weights[row.base + i] = where_visible(row, i, exp(score(row, i) - shift) * share, 0.0);
}
