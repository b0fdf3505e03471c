#version 460
// SPDX-License-Identifier: MIT
// y[b, 0, h, :] = Σ_s exp(m[s] − m) · sums[s, :] / Σ_s exp(m[s] − m) · total[s],  m = max_s m[s],  over the splits s,
// where { sums[s, :], m[s], total[s] } is what decode_attention leaves in partial[b, h, s, :]; zeros if all are empty.
// partial: [rows, splits, value_dim + 2] float32, y: [rows, value_dim], storage as lib/storage.glsl says;
// rows = batch · heads. Dao et al. 2023, "Flash-Decoding".
// One workgroup per row; an invocation owns the columns v ≡ its index modulo the workgroup's size, and walks over the
// splits by itself: they are few, and all invocations read the same address.
#extension GL_GOOGLE_include_directive : require
#include "interface/attention_combine.h"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { AttentionCombinePush p; };
layout(std430, binding = kAttentionCombinePartial) readonly buffer Partial { float partial[]; };
layout(std430, binding = kAttentionCombineY) STORED buffer Y { ELEMENT y[]; };
#include "lib/grid.glsl"
#include "lib/numbers.glsl"

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;
    const uint width = p.value_dim + kPartialExtra;
    const uint base = row * p.splits * width;

    float largest = MINUS_INFINITY;
    for (uint s = 0; s < p.splits; ++s)
        largest = max_keeping_nan(largest, partial[base + s * width + p.value_dim + kPartialMaximum]);
    const float shift = largest == MINUS_INFINITY ? 0.0 : largest;  // −∞ − (−∞) would be NaN

    for (uint v = gl_LocalInvocationIndex; v < p.value_dim; v += gl_WorkGroupSize.x) {
        float sum = 0.0;
        float total = 0.0;
        for (uint s = 0; s < p.splits; ++s) {
            const uint at = base + s * width;
            const float split_total = partial[at + p.value_dim + kPartialSum];
            if (split_total == 0.0) continue;  // no key: for a short sequence in a long cache, most of them
            const float factor = exp(partial[at + p.value_dim + kPartialMaximum] - shift);
            sum += factor * partial[at + v];
            total += factor * split_total;
        }
        STORE(y, row * p.value_dim + v, total == 0.0 ? 0.0 : sum / total);
    }
}
