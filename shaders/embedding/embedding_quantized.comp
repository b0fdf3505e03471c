#version 460
// SPDX-License-Identifier: MIT
// y[row, i] = scale · table[tokens[row], i]: embedding/embedding.comp for tables in a format of their own (lib/dequantize.glsl), width a
// multiple of 32 and of the format's block. y: [rows, width] as lib/storage4.glsl says, float32 arithmetic.
// One workgroup per row; an invocation owns the sixteens of elements i ≡ its index modulo the workgroup's size.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "embedding/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"
#include "lib/storage4.glsl"
#define WEIGHT_BINDING kEmbeddingWeight
#define WEIGHT_FORMAT kEmbeddingFormat
#include "lib/dequantize.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID EmbeddingPush p; };
layout(std430, binding = kEmbeddingTokens) readonly buffer Tokens { int tokens[]; };
layout(std430, binding = kEmbeddingY) writeonly buffer Y { ELEMENT4 y[]; };
#include "lib/numbers.glsl"

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;

    const uint token = uint(tokens[row]);  // a negative token becomes larger than any vocabulary
    const bool known = token < p.vocab;
    if (known ? token - p.first >= p.count : p.first > 0) return;
    const uint row_blocks = p.width / BLOCK_ELEMENTS;
    const uint first_block = (known ? token - p.first : 0) * row_blocks;
    for (uint sixteen = gl_LocalInvocationIndex; sixteen < p.width / 16; sixteen += gl_WorkGroupSize.x) {
        const Place at = place_of(first_block, sixteen, 0);
        const Stored16 stored = load16(at, p.count * row_blocks);
        const Sixteen packed = unpack16(stored, at);
        const vec2 scale = scale16(stored, at);
        [[unroll]] for (uint q = 0; q < 4; ++q) {
            const vec4 elements = p.scale * (scale.x * quad_of(packed, q) + scale.y);
            STORE4(y, (row * p.width + sixteen * 16) / 4 + q, known ? elements : vec4(NOT_A_NUMBER));
        }
    }
}
