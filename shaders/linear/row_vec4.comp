#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual, for few rows (a decode step) whose width is a multiple of what 16 bytes hold: 4 floats or
// 8 halves. x: [rows, in], weight: [out, in], bias: [out], residual, y: [rows, out], rows = ROWS ≤ 8; storage as lib/storage.glsl
// says (residual and y: linear/epilogue.glsl), sums in float32.
// One workgroup per COLUMNS columns of y, for all rows; an invocation owns vectors of 16 bytes of the depth, a workgroup's size
// apart, of all columns, and has ROWS · COLUMNS partial sums in registers, which meet as linear/row_sums.glsl says.
// linear/split_depth.glsl says what it does with a part of the depth.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "linear/epilogue.glsl"
#include "linear/split_depth.glsl"
#include "linear/row_sums.glsl"

#ifdef F16
#define VECTOR uvec4
const uint QUADS = 2;  // of a vector
vec4 quad_of(uvec4 v, uint quad) {
    const uvec2 words = quad == 0 ? v.xy : v.zw;
    return vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y));
}
#else
#define VECTOR vec4
const uint QUADS = 1;
vec4 quad_of(vec4 v, uint quad) { return v; }
#endif
layout(std430, binding = kLinearX) readonly buffer X { VECTOR x[]; };
layout(std430, binding = kLinearWeight) readonly buffer Weight { VECTOR weight[]; };
layout(std430, binding = kLinearGain) readonly buffer Gain { VECTOR gain[]; };

void main() {
    const uint first_column = split_workgroup() * COLUMNS;
    if (first_column >= p.out_width) return;  // the whole workgroup leaves
    const uint width = p.in_width / (4 * QUADS);

    uint weight_row[COLUMNS];  // columns past the last repeat it: their sums are not stored
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
        weight_row[c] = (weight_before() + weight_row_of(first_column + c, 1)) * width;

    vec4 sum[ROW_QUADS * COLUMNS], squares[ROW_QUADS];
    [[unroll]] for (uint i = 0; i < ROW_QUADS * COLUMNS; ++i) sum[i] = vec4(0.0);
    [[unroll]] for (uint i = 0; i < ROW_QUADS; ++i) squares[i] = vec4(0.0);

    const uvec2 part = steps_of_split(width);
    for (uint k = part.x + gl_LocalInvocationIndex; k < part.y; k += gl_WorkGroupSize.x) {
        VECTOR w[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) w[c] = weight[weight_row[c] + k];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            const VECTOR packed = x[(x_before() + r) * width + k];
            vec4 value[QUADS];
            [[unroll]] for (uint q = 0; q < QUADS; ++q) {
                value[q] = quad_of(packed, q);
                if (HAS_NORM) {  // no `continue`: behind one PanVK unrolls neither this loop nor those around it
                    squares[r / 4][r % 4] = add_product(value[q], value[q], squares[r / 4][r % 4]);
                    value[q] *= (HAS_GAIN ? quad_of(gain[k], q) : vec4(1.0)) + p.norm_gain_offset;
                }
            }
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                const uint i = r / 4 * COLUMNS + c;
                [[unroll]] for (uint q = 0; q < QUADS; ++q)
                    sum[i][r % 4] = add_product(value[q], quad_of(w[c], q), sum[i][r % 4]);
            }
        }
    }

    [[unroll]] for (uint r = 0; r < ROWS; ++r)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) put_part(r, c, sum[r / 4 * COLUMNS + c][r % 4]);
    if (HAS_NORM)
        [[unroll]] for (uint r = 0; r < ROWS; ++r) put_squares(r, squares[r / 4][r % 4]);
    finish_row_sums(first_column);
}
