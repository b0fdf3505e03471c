#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual for weights in a format of their own and few rows (a decode step), where reading the
// weights once is all the cost.
// x: [rows, in], weight: [out, in] as lib/dequantize.glsl says, bias: [out], residual, y: [rows, out], rows = ROWS ≤ 8; sums in
// float32. One workgroup per COLUMNS columns of y, for all rows. An invocation owns every 64th sixteen of the depth: it loads that
// of all columns, 16-byte vectors beside its neighbours', and multiplies by the integers; scale and offset apply to their sums:
//     Σ (scale · q + offset) · x = scale · Σ q · x + offset · Σ x
// linear/split_depth.glsl says what it does with a part of the depth.
// Shared memory: 32 sums · 65 · 4 = 8320 bytes.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "linear/epilogue.glsl"
#include "lib/storage4.glsl"
#define WEIGHT_BINDING kLinearWeight
#define WEIGHT_FORMAT kLinearWeightFormat
#define BIASED_Q8
#include "lib/dequantize.glsl"
#include "linear/split_depth.glsl"
#include "linear/row_sums.glsl"

layout(std430, binding = kLinearX) readonly buffer X { ELEMENT4 x[]; };
layout(std430, binding = kLinearGain) readonly buffer Gain { ELEMENT4 gain[]; };

void main() {
    const uint first_column = split_workgroup() * COLUMNS;
    if (first_column >= p.out_width) return;  // the whole workgroup leaves
    const uint row_blocks = p.in_width / BLOCK_ELEMENTS, blocks = row_blocks * p.out_width;

    // Bounds that are known when the pipeline is made, not before: compilers that keep an array in registers only where its indices are
    // constants then unroll what is there, and nothing else.
    float sum[ROWS * COLUMNS], squares[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) squares[r] = 0.0;
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; ++i) sum[i] = 0.0;

    const uvec2 part = steps_of_split(p.in_width / 16);
    for (uint sixteen = part.x + gl_LocalInvocationIndex; sixteen < part.y; sixteen += kLinearSumsWorkgroup) {
        Stored16 stored[COLUMNS];
        Place at[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            at[c] = place_of(weight_row_of(first_column + c, 1) * row_blocks, sixteen, 0);
            stored[c] = load16(at[c], blocks);
        }
        Sixteen packed[COLUMNS];
        vec2 scale[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            packed[c] = unpack16(stored[c], at[c]);
            scale[c] = scale16(stored[c], at[c]);
        }
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            vec4 value[4];
            [[unroll]] for (uint q = 0; q < 4; ++q) {
                value[q] = LOAD4(x, r * (p.in_width / 4) + sixteen * 4 + q);
                if (!HAS_NORM) continue;
                squares[r] = add_product(value[q], value[q], squares[r]);
                value[q] *= (HAS_GAIN ? LOAD4(gain, sixteen * 4 + q) : vec4(1.0)) + p.norm_gain_offset;
            }
            const float total = dot(value[0] + value[1] + value[2] + value[3], vec4(1.0));
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                float product = 0.0;
                [[unroll]] for (uint q = 0; q < 4; ++q) product = add_product(value[q], quad_of(packed[c], q), product);
                sum[r * COLUMNS + c] += scale[c].x * product;
                if (HAS_OFFSET) sum[r * COLUMNS + c] += scale[c].y * total;
            }
        }
    }

    [[unroll]] for (uint r = 0; r < ROWS; ++r)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) put_part(r, c, sum[r * COLUMNS + c]);
    if (HAS_NORM)
        [[unroll]] for (uint r = 0; r < ROWS; ++r) put_squares(r, squares[r]);
    finish_row_sums(first_column);
}
