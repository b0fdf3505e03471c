#version 460
// SPDX-License-Identifier: MIT
// y[row, i] = scale · table[tokens[row], i]; a token outside 0 … vocab − 1 gives a row of NaN and reads nothing.
// tokens: [rows] int32; table: [vocab, width], y: [rows, width]; storage as lib/storage.glsl says, float32 arithmetic.
// With TABLE_F32, the table is float whatever y is; with TO_F32, y is.
// Vaswani et al. 2017, section 3.4 (scale = √width there).
// One workgroup per row; an invocation owns the elements i ≡ its index modulo the workgroup's size.
#extension GL_GOOGLE_include_directive : require
#include "embedding/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

#ifdef TABLE_F32
#define STORED_ELEMENT float
#define LOAD_STORED(buffer, i) buffer[i]
#else
#define STORED_ELEMENT ELEMENT
#define LOAD_STORED(buffer, i) LOAD(buffer, i)
#endif
#ifdef TO_F32
#define RESULT float
#define RESULT_STORED writeonly
#define STORE_RESULT(buffer, i, value) buffer[i] = (value)
#else
#define RESULT ELEMENT
#define RESULT_STORED STORED
#define STORE_RESULT(buffer, i, value) STORE(buffer, i, value)
#endif

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID EmbeddingPush p; };
layout(std430, binding = kEmbeddingTokens) readonly buffer Tokens { int tokens[]; };
layout(std430, binding = kEmbeddingTable) readonly buffer Table { STORED_ELEMENT table[]; };
layout(std430, binding = kEmbeddingY) RESULT_STORED buffer Y { RESULT y[]; };
#include "lib/numbers.glsl"

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;

    const uint token = uint(tokens[row]);  // a negative token becomes larger than any vocabulary
    const bool known = token < p.vocab;
    if (known ? token - p.first >= p.count : p.first > 0) return;
    const uint source = (known ? token - p.first : 0) * p.width;
    for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x) {
        const float element = known ? p.scale * LOAD_STORED(table, source + i) : NOT_A_NUMBER;
        STORE_RESULT(y, row * p.width + i, element);
    }
}
