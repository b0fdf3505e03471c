#version 460
// SPDX-License-Identifier: MIT
// y = x + bias; for a token in the prompt or generated, y / repetition where y > 0, else y · repetition; for one generated n ≥ 1
// times, y − presence − frequency · n. x, y: f32 [rows, vocab], counts: i32 [rows, vocab] of count_tokens/count_tokens.comp, bias: f32 [vocab].
// Repetition: Keskar et al. 2019, section 4.1, as Hugging Face has it; presence and frequency: OpenAI's definition; order: vLLM's.
// One workgroup per 4 · gl_WorkGroupSize.x consecutive elements; an invocation owns four of them, a workgroup's size apart,
// so that neighbours read neighbours.
#extension GL_GOOGLE_include_directive : require
#include "count_tokens/contract.h"
#include "penalize/contract.h"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kPenalizeHasCounts) const uint HAS_COUNTS = 0;
layout(constant_id = kPenalizeHasBias) const uint HAS_BIAS = 0;
layout(push_constant) uniform Push { PenalizePush p; };
layout(std430, binding = kPenalizeX) readonly buffer X { float x[]; };
layout(std430, binding = kPenalizeCounts) readonly buffer Counts { uint counts[]; };
layout(std430, binding = kPenalizeBias) readonly buffer Bias { float bias[]; };
layout(std430, binding = kPenalizeY) writeonly buffer Y { float y[]; };
#include "lib/grid.glsl"

float penalized(float logit, uint count) {
    if (count == 0) return logit;
    logit = logit > 0.0 ? logit / p.repetition : logit * p.repetition;
    const uint generated = count & (kInPrompt - 1);
    return generated == 0 ? logit : logit - (p.presence + p.frequency * float(generated));
}

void main() {
    const uint first = linear_workgroup() * gl_WorkGroupSize.x * kPenalizeElementsPerInvocation;
    for (uint k = 0; k < kPenalizeElementsPerInvocation; ++k) {
        const uint i = first + k * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
        if (i >= p.count) continue;
        float logit = x[i];
        if (HAS_BIAS == 1) logit += bias[i % p.vocab];
        y[i] = HAS_COUNTS == 1 ? penalized(logit, counts[i]) : logit;
    }
}
