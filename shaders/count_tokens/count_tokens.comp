#version 460
// SPDX-License-Identifier: MIT
// counts[row, t] += 1 for every t = tokens[row, i], i < lengths[row], or |= kInPrompt for those of the prompt; tokens outside
// 0 … vocab − 1 are passed over. tokens: i32 [rows, len], lengths: i32 [rows], counts: i32 [rows, vocab].
// An invocation owns one token. A token may occur twice in a row, so that counts are changed by atomics.
#extension GL_GOOGLE_include_directive : require
#include "count_tokens/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kCountTokensHasLengths) const uint HAS_LENGTHS = 0;
layout(constant_id = kCountTokensAdds) const uint ADDS = 1;
layout(push_constant) uniform Push { PART_OF_GRID CountTokensPush p; };
layout(std430, binding = kCountTokensTokens) readonly buffer Tokens { uint tokens[]; };
layout(std430, binding = kCountTokensLengths) readonly buffer Lengths { int lengths[]; };
layout(std430, binding = kCountTokensCounts) buffer Counts { uint counts[]; };

void main() {
    const uint element = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    const uint row = element / p.len;
    if (row >= p.rows) return;
    if (HAS_LENGTHS == 1 && int(element % p.len) >= lengths[row]) return;

    const uint token = tokens[element];  // a negative token becomes larger than any vocabulary
    if (token >= p.vocab) return;
    if (ADDS == 1)
        atomicAdd(counts[row * p.vocab + token], 1u);
    else
        atomicOr(counts[row * p.vocab + token], kInPrompt);
}
