#version 460
// SPDX-License-Identifier: MIT
// halves[row, i] = float16(x[row, i] · 2^e),  scales[row] = 2^−e, with e such that the largest of a row lies between 2^13 and 2^14:
// nothing overflows, and what float16 cannot hold is 2^-38 of the largest or less. e is 126 at most, for 2^-e to be a
// normal float: rows below 2^-113 have smaller halves. Beside an infinity or a NaN, which stay visible, what is finite stays so.
// x: float32 [rows, width], width a multiple of 4. The scales lie in the memory of the halves, behind them: float32 [rows].
// One workgroup per row.
#extension GL_GOOGLE_include_directive : require
#include "linear/halve_rows.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID HalveRowsPush p; };
layout(std430, binding = kHalveRowsX) readonly buffer X { vec4 x[]; };
layout(std430, binding = kHalveRowsHalves) writeonly buffer Halves { uvec2 halves[]; };
layout(std430, binding = kHalveRowsScales) writeonly buffer Scales { float scales[]; };
#include "lib/reduce.glsl"

const int kLargestExponent = 13;

float two_to_the(int exponent) { return uintBitsToFloat(uint(exponent + 127) << 23); }

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;  // the whole workgroup leaves
    const uint quads = p.width / 4, base = row * quads;
    float largest = 0.0;
    for (uint i = gl_LocalInvocationIndex; i < quads; i += gl_WorkGroupSize.x) {
        const vec4 v = abs(x[base + i]);
        largest = max_keeping_nan(max_keeping_nan(max_keeping_nan(v.x, v.y), max_keeping_nan(v.z, v.w)), largest);
    }
    const uint exponent_bits = floatBitsToUint(workgroup_max(largest)) >> 23 & 255u;  // 0: at most subnormal; 255: infinite or no number
    const int exponent = min(kLargestExponent + 127 - int(exponent_bits), 126);
    const float scale = two_to_the(exponent);
    for (uint i = gl_LocalInvocationIndex; i < quads; i += gl_WorkGroupSize.x) {
        const vec4 v = x[base + i] * scale;
        halves[base + i] = uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw));
    }
    if (gl_LocalInvocationIndex == 0) scales[p.rows * p.width / 2 + row] = two_to_the(-exponent);
}
