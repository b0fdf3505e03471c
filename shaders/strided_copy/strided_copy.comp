#version 460
// SPDX-License-Identifier: MIT
// y[b(i)] = x[a(i)], where a(i) = first + Σ_k index_k · stride_k of x, b(i) that of y, and i is the row-major place of the index in a block
// of four dimensions. Words of 32 bits: float32, int32 and pairs of float16. A tensor that has gaps becomes one without, or the other way
// round, or a block goes from one tensor to another; other words of y stay as they are.
// One workgroup per gl_WorkGroupSize.x consecutive words of the block; an invocation owns one.
#extension GL_GOOGLE_include_directive : require
#include "strided_copy/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID StridedCopyPush p; };
layout(std430, binding = kStridedCopyX) readonly buffer X { uint x[]; };
layout(std430, binding = kStridedCopyY) writeonly buffer Y { uint y[]; };

void main() {
    const uint i = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (i >= p.count) return;
    const uint index_3 = i % p.size_3, rows = i / p.size_3;
    const uint index_2 = rows % p.size_2, planes = rows / p.size_2;
    const uint index_1 = planes % p.size_1, index_0 = planes / p.size_1;
    y[p.y_first + index_3 * p.y_stride_3 + index_2 * p.y_stride_2 + index_1 * p.y_stride_1 + index_0 * p.y_stride_0] =
        x[p.x_first + index_3 * p.x_stride_3 + index_2 * p.x_stride_2 + index_1 * p.x_stride_1 + index_0 * p.x_stride_0];
}
