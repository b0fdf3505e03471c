#version 460
// SPDX-License-Identifier: MIT
// y[b, i, :] = x[b, i, :] + table[starts[b] + i, :]; a position outside the table gives a row of NaN and reads nothing.
// x, y: [batch, len, width], storage as lib/storage.glsl says; table: f32 [positions, width]; starts: i32 [batch].
// Vaswani et al. 2017, section 3.5. The table has the sinusoids: Vulkan bounds the error of sin() by 2^-11 only.
// One workgroup per row; an invocation owns the elements ≡ its index modulo the workgroup's size.
#extension GL_GOOGLE_include_directive : require
#include "positional_embedding/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kPositionalEmbeddingHasStarts) const uint HAS_STARTS = 0;
layout(push_constant) uniform Push { PART_OF_GRID PositionalEmbeddingPush p; };
layout(std430, binding = kPositionalEmbeddingX) readonly buffer X { ELEMENT x[]; };
layout(std430, binding = kPositionalEmbeddingTable) readonly buffer Table { float table[]; };
layout(std430, binding = kPositionalEmbeddingStarts) readonly buffer Starts { int starts[]; };
layout(std430, binding = kPositionalEmbeddingY) STORED buffer Y { ELEMENT y[]; };
#include "lib/numbers.glsl"

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;

    // Modulo 2^32 a negative position is larger than any table, and start + i cannot wrap past that: i < 2^31.
    uint position = row % p.len;
    if (HAS_STARTS == 1) position += uint(starts[row / p.len]);
    const bool known = position < p.positions;
    const uint source = (known ? position : 0) * p.width;
    for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x) {
        const uint at = row * p.width + i;
        const float element = known ? LOAD(x, at) + table[source + i] : NOT_A_NUMBER;
        STORE(y, at, element);
    }
}
