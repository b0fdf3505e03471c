#version 460
// SPDX-License-Identifier: MIT
// y[row, i] = i < a_width ? a[row, i] : b[row, i − a_width]. a: [rows, a_width], b: [rows, b_width], y: [rows, a_width +
// b_width]; storage as lib/storage.glsl says.
// One workgroup per 4 · gl_WorkGroupSize.x consecutive elements of y; an invocation owns four of them, a workgroup's size
// apart, so that neighbours read neighbours.
#extension GL_GOOGLE_include_directive : require
#include "concat/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID ConcatPush p; };
layout(std430, binding = kConcatA) readonly buffer A { ELEMENT a[]; };
layout(std430, binding = kConcatB) readonly buffer B { ELEMENT b[]; };
layout(std430, binding = kConcatY) STORED buffer Y { ELEMENT y[]; };

void main() {
    const uint width = p.a_width + p.b_width;
    const uint first = linear_workgroup() * gl_WorkGroupSize.x * kConcatElementsPerInvocation;
    for (uint k = 0; k < kConcatElementsPerInvocation; ++k) {
        const uint i = first + k * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
        if (i >= p.count) continue;
        const uint row = i / width;
        const uint column = i - row * width;
        float value;
        if (column < p.a_width) {
            value = LOAD(a, row * p.a_width + column);
        } else {
            value = LOAD(b, row * p.b_width + column - p.a_width);
        }
        STORE(y, i, value);
    }
}
