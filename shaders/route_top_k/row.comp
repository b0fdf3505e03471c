#version 460
// SPDX-License-Identifier: MIT
// The router of a mixture of experts. score[i] = exp(x[i] − m) / Σ_j exp(x[j] − m), m = max_j x[j], or 1 / (1 + exp(−x[i])), i over the
// experts of a row. indices[row, :] = the k experts that come first by x, or by score + bias with a bias, in the order of lib/order.glsl;
// weights[row, :] = their scores, divided by their sum + least_sum where NORMALISES, times scale.
// x: [rows, experts], bias: [experts], weights: [rows, k], all float32; indices: i32 [rows, k]; k ≤ kRouteTopKMaxK.
// One workgroup per row; an invocation owns the experts i ≡ its index modulo the workgroup's size, and writes the j-th chosen of its index.
#extension GL_GOOGLE_include_directive : require
#include "route_top_k/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kRouteTopKScores) const uint SCORES = kRouteScoresSoftmax;
layout(constant_id = kRouteTopKHasBias) const uint HAS_BIAS = 0;
layout(constant_id = kRouteTopKNormalises) const uint NORMALISES = 0;
layout(push_constant) uniform Push { PART_OF_GRID RouteTopKPush p; };
layout(std430, binding = kRouteTopKX) readonly buffer X { float x[]; };
layout(std430, binding = kRouteTopKBias) readonly buffer Bias { float bias[]; };
layout(std430, binding = kRouteTopKWeights) writeonly buffer Weights { float weights[]; };
layout(std430, binding = kRouteTopKIndices) writeonly buffer Indices { uint indices[]; };
#include "lib/activation.glsl"
#include "lib/reduce.glsl"
#include "lib/reduce_candidate.glsl"

// What a softmax needs: the largest logit of the row, and the sum over its exponentials.
float score_of(float logit, float largest, float sum) {
    if (SCORES == kRouteScoresSoftmax) return exp(logit - largest) / sum;
    return isnan(logit) ? logit : sigmoid(logit);
}

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;  // the whole workgroup leaves
    const uint base = row * p.experts, lane = gl_LocalInvocationIndex;

    float largest = 0.0, sum = 1.0;  // of a softmax
    if (SCORES == kRouteScoresSoftmax) {
        largest = MINUS_INFINITY;
        for (uint i = lane; i < p.experts; i += gl_WorkGroupSize.x) largest = max_keeping_nan(largest, x[base + i]);
        largest = workgroup_max(largest);
        sum = 0.0;
        for (uint i = lane; i < p.experts; i += gl_WorkGroupSize.x) sum += exp(x[base + i] - largest);
        sum = workgroup_sum(sum);
    }

    Candidate chosen = kBeforeAll;
    float own_weight = 0.0, chosen_sum = 0.0;
    uint own_index = 0;
    for (uint j = 0; j < p.k; ++j) {
        Candidate next = kAfterAll;  // the first behind the one chosen last: no two experts have one place
        for (uint i = lane; i < p.experts; i += gl_WorkGroupSize.x) {
            const float value = x[base + i];
            // Without a bias by the logit itself: both scores rise with it, and they round.
            const float place = HAS_BIAS == 1 ? score_of(value, largest, sum) + bias[i] : value;
            const Candidate candidate = Candidate(order_key(floatBitsToUint(place)), i);
            if (comes_before(chosen, candidate) && comes_before(candidate, next)) next = candidate;
        }
        chosen = workgroup_first(next);
        const float score = score_of(x[base + chosen.index], largest, sum);
        chosen_sum += score;
        if (j == lane) {
            own_weight = score;
            own_index = chosen.index;
        }
    }
    if (lane >= p.k) return;
    weights[row * p.k + lane] = (NORMALISES == 1 ? own_weight / (chosen_sum + p.least_sum) : own_weight) * p.scale;
    indices[row * p.k + lane] = own_index;
}
