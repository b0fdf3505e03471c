#version 460
// SPDX-License-Identifier: MIT
// y = x + bias; for a token in the prompt or generated, y / repetition where y > 0, else y · repetition; for one generated n ≥ 1
// times, y − presence − frequency · n. x, y: f32 [rows, vocab], counts: i32 [rows, vocab] of count_tokens/count_tokens.comp, bias: f32 [vocab]
// or [rows, vocab], settings: f32 [rows, 3], what the push block has of a row. y = −∞ for token i where bit i % 32 of word i / 32 of
// allowed, i32 [rows, ⌈vocab / 32⌉], is 0.
// Repetition: Keskar et al. 2019, section 4.1, as Hugging Face has it; presence and frequency: OpenAI's definition; order: vLLM's.
// One workgroup per 4 · gl_WorkGroupSize.x consecutive elements; an invocation owns four of them, a workgroup's size apart,
// so that neighbours read neighbours.
#extension GL_GOOGLE_include_directive : require
#include "count_tokens/contract.h"
#include "lib/grid.glsl"
#include "penalize/contract.h"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kPenalizeHasCounts) const uint HAS_COUNTS = 0;
layout(constant_id = kPenalizeHasBias) const uint HAS_BIAS = 0;
layout(constant_id = kPenalizeHasSettings) const uint HAS_SETTINGS = 0;
layout(constant_id = kPenalizeHasAllowed) const uint HAS_ALLOWED = 0;
layout(push_constant) uniform Push { PART_OF_GRID PenalizePush p; };
layout(std430, binding = kPenalizeX) readonly buffer X { float x[]; };
layout(std430, binding = kPenalizeCounts) readonly buffer Counts { uint counts[]; };
layout(std430, binding = kPenalizeBias) readonly buffer Bias { float bias[]; };
layout(std430, binding = kPenalizeY) writeonly buffer Y { float y[]; };
layout(std430, binding = kPenalizeSettings) readonly buffer Settings { float settings[]; };
layout(std430, binding = kPenalizeAllowed) readonly buffer Allowed { uint allowed[]; };
#include "lib/numbers.glsl"

// Repetition, presence and frequency.
vec3 settings_of(uint row) {
    if (HAS_SETTINGS == 0) return vec3(p.repetition, p.presence, p.frequency);
    const uint first = row * kPenalizeSettingsWords;
    return vec3(settings[first], settings[first + 1], settings[first + 2]);
}

float penalized(float logit, uint count, vec3 by) {
    if (count == 0) return logit;
    logit = logit > 0.0 ? logit / by.x : logit * by.x;
    const uint generated = count & (kInPrompt - 1);
    return generated == 0 ? logit : logit - (by.y + by.z * float(generated));
}

bool is_allowed(uint i) {
    if (HAS_ALLOWED == 0) return true;
    const uint token = i % p.vocab, words = (p.vocab + 31) / 32;
    return (allowed[i / p.vocab * words + token / 32] >> (token % 32) & 1u) == 1;
}

void main() {
    const uint first = linear_workgroup() * gl_WorkGroupSize.x * kPenalizeElementsPerInvocation;
    for (uint k = 0; k < kPenalizeElementsPerInvocation; ++k) {
        const uint i = first + k * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
        if (i >= p.count) continue;
        float logit = x[i];
        if (HAS_BIAS != 0) logit += bias[HAS_BIAS == 2 ? i : i % p.vocab];
        if (HAS_COUNTS == 1) logit = penalized(logit, counts[i], settings_of(i / p.vocab));
        y[i] = is_allowed(i) ? logit : MINUS_INFINITY;
    }
}
