#version 460
// SPDX-License-Identifier: MIT
// y[row, column] = f(Σ_split partial[split, row, column] + bias[column]) + residual[row, column], or with a gate what linear/epilogue.glsl says
// partial: float32 [splits, rows, out], what the parts of the depth left (linear/split_depth.glsl); the rest as there. An invocation owns
// one element of y and adds in the order of the splits, so that results do not depend on who was first.
#extension GL_GOOGLE_include_directive : require
#include "linear/epilogue.glsl"

layout(constant_id = kLinearSplits) const uint SPLITS = 1;
layout(std430, binding = kLinearPartial) readonly buffer Partial { float partial[]; };

float whole_sum(uint row, uint column) {
    float sum = 0.0;
    for (uint split = 0; split < SPLITS; ++split)
        sum += partial[p.partial_before + (split * p.rows + row) * p.out_width + column];
    return sum;
}

void main() {
    const uint width = END == kLinearEndGate ? p.out_width / 2 : p.out_width;
    const uint i = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex, row = i / width, column = i % width;
    if (row >= p.rows) return;
    if (END == kLinearEndGate)
        finish_gated(row, column, width, whole_sum(row, column), whole_sum(row, width + column));
    else
        finish(row, column, whole_sum(row, column));
}
