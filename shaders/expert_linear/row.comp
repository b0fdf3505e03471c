#version 460
// SPDX-License-Identifier: MIT
// y[r, j, :] = W_e · x[r] (or x[r, j]), e = experts[r, j], for few rows (a decode step), where reading the weights once is all the cost.
// x: [rows, in] or [rows, k, in], weight: [experts · out, in], experts: int32 [rows, k], y: [rows, k, out]; storage as lib/storage.glsl says, sums
// in float32. An expert that there is not gives a row of NaN and reads no weight of its own.
// One workgroup per pair of a row and one of its experts, and COLUMNS columns of y; an invocation owns every 64th element of the depth, with VEC4
// every 64th quad of a width that is a multiple of 4, of all columns. Its sums meet as linear/row_sums.glsl says.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "expert_linear/product.glsl"

#ifdef VEC4
#include "lib/storage4.glsl"
#define STEP_ELEMENT ELEMENT4
#define STEP vec4
#define LOAD_STEP LOAD4
const uint STEP_WIDTH = 4;
#else
#define STEP_ELEMENT ELEMENT
#define STEP float
#define LOAD_STEP LOAD
const uint STEP_WIDTH = 1;
float add_product(float a, float b, float sum) { return fma(a, b, sum); }
#endif
layout(std430, binding = kLinearX) readonly buffer X { STEP_ELEMENT x[]; };
layout(std430, binding = kLinearWeight) readonly buffer Weight { STEP_ELEMENT weight[]; };

void main() {
    uint first_column;
    if (!take_pair(first_column)) return;  // the whole workgroup leaves
    const uint width = p.in_width / STEP_WIDTH;
    const uint x_start = own_pair / p.sharing * width;
    uint weight_start[COLUMNS];  // columns past the last repeat it: their sums are not stored
    float sum[COLUMNS];
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
        weight_start[c] = (weight_before() + min(first_column + c, p.out_width - 1)) * width;
        sum[c] = 0.0;
    }

    for (uint k = gl_LocalInvocationIndex; k < width; k += gl_WorkGroupSize.x) {
        STEP w[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) w[c] = LOAD_STEP(weight, weight_start[c] + k);
        const STEP value = LOAD_STEP(x, x_start + k);
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[c] = add_product(value, w[c], sum[c]);
    }

    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) put_part(0, c, sum[c]);
    finish_row_sums(first_column);
}
