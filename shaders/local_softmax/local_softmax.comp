#version 460
// SPDX-License-Identifier: MIT
// weights[b, h, i, j] = exp(s[j] − m) / Σ_k exp(s[k] − m),  m = max_k s[k],  s = scores[b, h, i, :],
// over the keys of the window |p − j| ≤ half_width, 0 ≤ j < length; 0 for all others, and for a query whose window is empty
// (or has only keys with s = −∞). Centre p = positions[b, i] (local-m) or, RELATIVE, relative[b, i] · length (local-p); the
// latter's weights are then multiplied by exp(−(j − p)² / 2σ²), σ = half_width / 2. A p that is NaN gives a row of NaN.
// scores, weights: [batch, heads, query_len, key_len] float32. Luong et al. 2015, section 3.2, eq. 9 and 10.
// One workgroup per row (b, h, i); an invocation owns the keys j ≡ its index modulo the workgroup's size. Keys outside of the
// window are not read.
#extension GL_GOOGLE_include_directive : require
#include "local_softmax/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kLocalSoftmaxIsRelative) const uint RELATIVE = 0;
layout(constant_id = kLocalSoftmaxHasKeyLengths) const uint HAS_KEY_LENGTHS = 0;
layout(push_constant) uniform Push { PART_OF_GRID LocalSoftmaxPush p; };
layout(std430, binding = kLocalSoftmaxScores) readonly buffer Scores { float scores[]; };
layout(std430, binding = kLocalSoftmaxPositions) readonly buffer Positions { int positions[]; };
layout(std430, binding = kLocalSoftmaxRelative) readonly buffer Relative { float relative[]; };
layout(std430, binding = kLocalSoftmaxKeyLengths) readonly buffer KeyLengths { int key_lengths[]; };
layout(std430, binding = kLocalSoftmaxWeights) writeonly buffer Weights { float weights[]; };
#include "lib/reduce.glsl"

// Keys first … end − 1, and the centre as a float.
struct Window {
    int first, end;
    float centre;
};

Window window_of(uint batch, uint query) {
    const int length = HAS_KEY_LENGTHS == 1 ? clamp(key_lengths[batch], 0, int(p.key_len)) : int(p.key_len);
    const int half_width = int(p.half_width);
    Window window;
    if (RELATIVE == 1) {
        window.centre = relative[batch * p.query_len + query] * float(length);
        // The inner clamp keeps the conversion defined; the outer one holds for a NaN, which may convert to anything.
        window.first = clamp(int(clamp(ceil(window.centre - float(half_width)), 0.0, float(length))), 0, length);
        window.end = clamp(int(clamp(floor(window.centre + float(half_width)) + 1.0, 0.0, float(length))), 0, length);
    } else {
        // Far outside is as good as just outside, and no sum wraps around.
        const int centre = clamp(positions[batch * p.query_len + query], -half_width - 1, 0x7FE00000);
        window.centre = float(centre);
        window.first = clamp(centre - half_width, 0, length);
        window.end = clamp(centre + half_width + 1, 0, length);
    }
    return window;
}

void main() {
    const uint row = linear_workgroup();
    const uint query = row % p.query_len;
    const uint batch = row / p.query_len / p.heads;
    if (batch >= p.batch) return;  // the whole workgroup leaves

    const uint base = row * p.key_len;
    const Window window = window_of(batch, query);
    const int lane = int(gl_LocalInvocationIndex), stride = int(gl_WorkGroupSize.x);

    float largest = MINUS_INFINITY;
    for (int j = window.first + lane; j < window.end; j += stride) largest = max_keeping_nan(largest, scores[base + j]);
    largest = workgroup_max(largest);
    const float shift = largest == MINUS_INFINITY ? 0.0 : largest;  // −∞ − (−∞) would be NaN

    float total = 0.0;
    for (int j = window.first + lane; j < window.end; j += stride) total += exp(scores[base + j] - shift);
    total = workgroup_sum(total);

    const float steepness = 2.0 / (float(p.half_width) * float(p.half_width));  // 1 / 2σ²
    for (int j = lane; j < int(p.key_len); j += stride) {
        float weight = 0.0;
        if (j >= window.first && j < window.end && total != 0.0) {
            weight = exp(scores[base + j] - shift) / total;
            const float distance = float(j) - window.centre;
            if (RELATIVE == 1) weight *= exp(-distance * distance * steepness);
        }
        weights[base + j] = isnan(window.centre) ? NOT_A_NUMBER : weight;
    }
}
