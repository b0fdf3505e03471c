#version 460
// SPDX-License-Identifier: MIT
// y[row, column] = f(Σ_split partial[split, row, column] + bias[column]) + residual[row, column]
// partial: float32 [splits, rows, out], what the parts of the depth left (lib/linear_split.glsl); the rest as there. An invocation owns
// one element and adds in the order of the splits, so that results do not depend on who was first.
#extension GL_GOOGLE_include_directive : require
#include "lib/linear.glsl"

layout(constant_id = kLinearSplits) const uint SPLITS = 1;
layout(std430, binding = kLinearPartial) readonly buffer Partial { float partial[]; };

void main() {
    const uint i = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex, count = p.rows * p.out_width;
    if (i >= count) return;
    float sum = 0.0;
    for (uint split = 0; split < SPLITS; ++split) sum += partial[split * count + i];
    finish(i / p.out_width, i % p.out_width, sum);
}
