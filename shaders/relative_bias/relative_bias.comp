#version 460
// SPDX-License-Identifier: MIT
// y[b, h, i, j] = table[h, clamp(j - (starts[b] + i), -reach, reach) + reach]
// table: f32 [heads, 2 * reach + 1]; starts: i32 [batch]; y: f32 [batch, heads, query_len, key_len].
// Raffel et al. 2020, section 2.1, with the buckets spelled out: an invocation reads one word and computes no logarithm.
// One workgroup per row of keys; an invocation owns the keys ≡ its index modulo the workgroup's size.
#extension GL_GOOGLE_include_directive : require
#include "relative_bias/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kRelativeBiasHasStarts) const uint HAS_STARTS = 0;
layout(push_constant) uniform Push { PART_OF_GRID RelativeBiasPush p; };
layout(std430, binding = kRelativeBiasTable) readonly buffer Table { float table[]; };
layout(std430, binding = kRelativeBiasStarts) readonly buffer Starts { int starts[]; };
layout(std430, binding = kRelativeBiasY) writeonly buffer Y { float y[]; };

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;

    const uint head = row / p.query_len % p.heads;
    const int reach = int(p.reach);
    int query = int(row % p.query_len);
    // Clamped, so that no distance overflows: lengths and tables have less than 2^30 elements.
    if (HAS_STARTS == 1) query += clamp(starts[row / (p.query_len * p.heads)], -(1 << 30), 1 << 30);
    const uint zero = head * (2 * p.reach + 1) + p.reach;  // of the table: distance 0
    for (uint j = gl_LocalInvocationIndex; j < p.key_len; j += gl_WorkGroupSize.x)
        y[row * p.key_len + j] = table[zero + clamp(int(j) - query, -reach, reach)];
}
