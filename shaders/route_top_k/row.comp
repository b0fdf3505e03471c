#version 460
// SPDX-License-Identifier: MIT
// The router of a mixture of experts. score[i] = exp(x[i] − m) / Σ_j exp(x[j] − m), m = max_j x[j], or 1 / (1 + exp(−x[i])), i over the
// experts of a row. indices[row, :] = the k experts that come first by x, or by score + bias with a bias, in the order of lib/order.glsl;
// weights[row, :] = their scores, divided by their sum + least_sum where NORMALISES, times scale.
// sparse_mixer: the j-th score is exp(c) / Σ_i exp(x[i]), c the j-th chosen's x, over the experts i that are no earlier choice and have
// c − x[i] ≤ 2 · jitter · max(|x[i]|, c).
// With groups of neighbours, the experts are those of the kept groups that come first by the sum of their GROUP_BEST best experts' places.
// x: [rows, experts], bias: [experts], weights: [rows, k], all float32; indices: i32 [rows, k]; k ≤ kRouteTopKMaxK.
// One workgroup per row; an invocation owns the experts and the groups i ≡ its index modulo the workgroup's size, and writes the j-th chosen
// of its index.
#extension GL_GOOGLE_include_directive : require
#include "route_top_k/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kRouteTopKScores) const uint SCORES = kRouteScoresSoftmax;
layout(constant_id = kRouteTopKHasBias) const uint HAS_BIAS = 0;
layout(constant_id = kRouteTopKNormalises) const uint NORMALISES = 0;
layout(constant_id = kRouteTopKGroupBest) const uint GROUP_BEST = 0;
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

// What an expert is chosen by. Where neither a bias nor another score is added, the logit itself: both scores rise with it, and they round.
float place_of(uint base, uint expert, float largest, float sum) {
    const float value = x[base + expert];
    if (HAS_BIAS == 0 && GROUP_BEST < 2) return value;
    return score_of(value, largest, sum) + (HAS_BIAS == 1 ? bias[expert] : 0.0);
}

shared uint group_keys[kRouteTopKMaxGroups];  // by order_key
shared bool group_is_kept[kRouteTopKMaxGroups];

// All invocations must call.
void choose_groups(uint base, float largest, float sum) {
    const uint size = p.experts / p.groups;
    for (uint g = gl_LocalInvocationIndex; g < p.groups; g += gl_WorkGroupSize.x) {
        float best = MINUS_INFINITY, second = MINUS_INFINITY;
        for (uint i = g * size; i < (g + 1) * size; ++i) {
            const float place = place_of(base, i, largest, sum);
            const uint key = order_key(floatBitsToUint(place));
            if (key > order_key(floatBitsToUint(best))) {
                second = best;
                best = place;
            } else if (key > order_key(floatBitsToUint(second))) {
                second = place;
            }
        }
        group_keys[g] = order_key(floatBitsToUint(GROUP_BEST == 2 ? best + second : best));
    }
    barrier();
    for (uint g = gl_LocalInvocationIndex; g < p.groups; g += gl_WorkGroupSize.x) {
        const Candidate own = Candidate(group_keys[g], g);
        uint before = 0;
        for (uint other = 0; other < p.groups; ++other)
            if (comes_before(Candidate(group_keys[other], other), own)) ++before;
        group_is_kept[g] = before < p.kept_groups;
    }
    barrier();
}

// The score of `chosen`, behind which all experts are that no earlier choice took. All invocations must call.
float score_by_neighbours(uint base, Candidate chosen) {
    const float own = x[base + chosen.index];
    float sum = 0.0;
    for (uint i = gl_LocalInvocationIndex; i < p.experts; i += gl_WorkGroupSize.x) {
        const float value = x[base + i];
        const bool is_far = own - value > 2.0 * p.jitter * max(abs(value), own);
        if (!comes_before(Candidate(order_key(floatBitsToUint(value)), i), chosen) && !is_far) sum += exp(value - own);
    }
    const float total = workgroup_sum(sum);
    return isnan(own) || isinf(own) ? NOT_A_NUMBER : 1.0 / total;  // not every device makes a NaN of exp(NaN)
}

bool may_choose(uint expert) { return GROUP_BEST == 0 || group_is_kept[expert / (p.experts / p.groups)]; }

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

    if (GROUP_BEST > 0) choose_groups(base, largest, sum);
    Candidate chosen = kBeforeAll;
    float own_weight = 0.0, chosen_sum = 0.0;
    uint own_index = 0;
    for (uint j = 0; j < p.k; ++j) {
        Candidate next = kAfterAll;  // the first behind the one chosen last: no two experts have one place
        for (uint i = lane; i < p.experts; i += gl_WorkGroupSize.x) {
            if (!may_choose(i)) continue;
            const Candidate candidate = Candidate(order_key(floatBitsToUint(place_of(base, i, largest, sum))), i);
            if (comes_before(chosen, candidate) && comes_before(candidate, next)) next = candidate;
        }
        chosen = workgroup_first(next);
        const float score = SCORES == kRouteScoresSparseMixer ? score_by_neighbours(base, chosen)
                                                              : score_of(x[base + chosen.index], largest, sum);
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
