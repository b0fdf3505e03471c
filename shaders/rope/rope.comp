#version 460
// SPDX-License-Identifier: MIT
// y[b, i, h, :] = x[b, i, h, :] with every pair (u, v) turned to (u · cos − v · sin, v · cos + u · sin); cos and sin of pair k are
// table[starts[b] + i, k] and table[starts[b] + i, rotary_dim / 2 + k]. A position outside the table gives NaN and reads nothing.
// x, y: [batch, len, heads, head_dim], storage as lib/storage.glsl says; table: f32 [positions, rotary_dim]; starts: i32 [batch].
// Su et al. 2021, eq. 34. The table has the angles' sines: Vulkan bounds the error of sin() by 2^-11 only.
// One workgroup per token and heads_per_workgroup of its heads; an invocation owns the pairs k ≡ its index modulo the workgroup's
// size of all these heads, so that an angle is read once for all of them, and the elements that are only copied likewise.
#extension GL_GOOGLE_include_directive : require
#include "rope/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kRopeHasStarts) const uint HAS_STARTS = 0;
layout(constant_id = kRopeInterleaved) const uint INTERLEAVED = 0;
layout(push_constant) uniform Push { PART_OF_GRID RopePush p; };
layout(std430, binding = kRopeX) readonly buffer X { ELEMENT x[]; };
layout(std430, binding = kRopeTable) readonly buffer Table { float table[]; };
layout(std430, binding = kRopeStarts) readonly buffer Starts { int starts[]; };
layout(std430, binding = kRopeY) STORED buffer Y { ELEMENT y[]; };
#include "lib/numbers.glsl"

void main() {
    const uint head_blocks = (p.heads + p.heads_per_workgroup - 1) / p.heads_per_workgroup;
    const uint token = linear_workgroup() / head_blocks;
    if (token >= p.tokens) return;
    const uint first_head = linear_workgroup() % head_blocks * p.heads_per_workgroup;
    const uint head_count = min(p.heads_per_workgroup, p.heads - first_head);
    const uint first = (token * p.heads + first_head) * p.head_dim;

    // Modulo 2^32 a negative position is larger than any table, and start + i cannot wrap past that: i < 2^31.
    uint position = token % p.len;
    if (HAS_STARTS == 1) position += uint(starts[token / p.len]);
    const bool known = position < p.positions;
    const uint angles = (known ? position : 0) * p.rotary_dim;
    const uint half_dim = p.rotary_dim / 2;

    for (uint k = gl_LocalInvocationIndex; k < half_dim; k += gl_WorkGroupSize.x) {
        const float c = known ? table[angles + k] : NOT_A_NUMBER;
        const float s = known ? table[angles + half_dim + k] : NOT_A_NUMBER;
        const uint u_at = first + (INTERLEAVED == 1 ? 2 * k : k);
        const uint distance = INTERLEAVED == 1 ? 1 : half_dim;
        for (uint h = 0; h < head_count; ++h) {
            const uint at = u_at + h * p.head_dim;
            const float u = LOAD(x, at), v = LOAD(x, at + distance);
            STORE(y, at, u * c - v * s);
            STORE(y, at + distance, v * c + u * s);
        }
    }
    for (uint i = p.rotary_dim + gl_LocalInvocationIndex; i < p.head_dim; i += gl_WorkGroupSize.x) {
        for (uint h = 0; h < head_count; ++h) {
            const uint at = first + h * p.head_dim + i;
            STORE(y, at, known ? LOAD(x, at) : NOT_A_NUMBER);
        }
    }
}
