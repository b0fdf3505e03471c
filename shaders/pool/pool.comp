#version 460
// SPDX-License-Identifier: MIT
// y[b, d] = x[b, 0, d]                         first
//           x[b, n − 1, d]                     last
//           Σ_i x[b, i, d] / n                 mean
//           Σ_i x[b, i, d] / √n                root mean
//           Σ_i (i + 1) · x[b, i, d] / Σ_i (i + 1)   weighted mean
//           max_i x[b, i, d]                   max; NaN wins
// over the valid tokens i < n = lengths[b]; 0 where n = 0. x: [batch, len, width], storage as lib/storage.glsl says; y: [batch,
// width] float32; lengths: i32 [batch].
// A workgroup owns as many columns of one sequence as it has invocations, an invocation one of them: neighbours read
// neighbours, and nothing has to be shared.
#extension GL_GOOGLE_include_directive : require
#include "pool/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kPoolMode) const uint MODE = kPoolMean;
layout(constant_id = kPoolHasLengths) const uint HAS_LENGTHS = 0;
layout(push_constant) uniform Push { PART_OF_GRID PoolPush p; };
layout(std430, binding = kPoolX) readonly buffer X { ELEMENT x[]; };
layout(std430, binding = kPoolLengths) readonly buffer Lengths { int lengths[]; };
layout(std430, binding = kPoolY) writeonly buffer Y { float y[]; };
#include "lib/numbers.glsl"

float largest_of(uint first, uint tokens) {
    float largest = LOAD(x, first);
    for (uint i = 1; i < tokens; ++i) largest = max_keeping_nan(largest, LOAD(x, first + i * p.width));
    return largest;
}

float sum_of(uint first, uint tokens) {
    float total = 0.0;
    for (uint i = 0; i < tokens; ++i) {
        const float element = LOAD(x, first + i * p.width);
        total += MODE == kPoolWeightedMean ? float(i + 1) * element : element;
    }
    return total;
}

float pooled(uint first, uint tokens) {
    const float count = float(tokens);
    if (MODE == kPoolFirst) return LOAD(x, first);
    if (MODE == kPoolLast) return LOAD(x, first + (tokens - 1) * p.width);
    if (MODE == kPoolMax) return largest_of(first, tokens);
    const float total = sum_of(first, tokens);
    if (MODE == kPoolRootMean) return total / sqrt(count);
    if (MODE == kPoolWeightedMean) return total / (0.5 * count * (count + 1.0));
    return total / count;
}

void main() {
    const uint workgroup = linear_workgroup();
    const uint batch = workgroup / p.blocks;
    const uint column = workgroup % p.blocks * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (batch >= p.batch || column >= p.width) return;

    const uint tokens = HAS_LENGTHS == 1 ? uint(clamp(lengths[batch], 0, int(p.len))) : p.len;
    y[batch * p.width + column] = tokens == 0 ? 0.0 : pooled(batch * p.len * p.width + column, tokens);
}
