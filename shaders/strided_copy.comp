#version 460
// Gather: y[i] = x[a(i)]; scatter: y[a(i)] = x[i], where a(i) = Σ_k index_k · stride_k and i is the row-major place of the index in a
// dense tensor of four dimensions. Words of 32 bits: float32 and int32. An application's tensor that has gaps becomes one without, or
// the other way round; words in the gaps stay as they are.
// One workgroup per gl_WorkGroupSize.x consecutive dense words; an invocation owns one.
#extension GL_GOOGLE_include_directive : require
#include "interface/strided_copy.h"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kStridedCopyScatterConstant) const uint kScatter = 0;
layout(push_constant) uniform Push { StridedCopyPush p; };
layout(std430, binding = kStridedCopyX) readonly buffer X { uint x[]; };
layout(std430, binding = kStridedCopyY) writeonly buffer Y { uint y[]; };
#include "lib/grid.glsl"

void main() {
    const uint i = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (i >= p.count) return;
    const uint index_3 = i % p.size_3, rows = i / p.size_3;
    const uint index_2 = rows % p.size_2, planes = rows / p.size_2;
    const uint at = index_3 * p.stride_3 + index_2 * p.stride_2 + planes % p.size_1 * p.stride_1 +
                    planes / p.size_1 * p.stride_0;
    if (kScatter == 0)
        y[i] = x[at];
    else
        y[at] = x[i];
}
