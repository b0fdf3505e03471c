#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual as linear/quantized_row.comp, with the activations rounded to 8 bits, sixteen with a scale
// (linear/int8.glsl): four products for one instruction. With weight = s · q + o and x ≈ t · p, over sixteen elements
//     Σ weight · x ≈ s · t · Σ q · p + o · t · Σ p      q, p integers of 8 bits
// x: [rows, in], weight: [out, in] as lib/dequantize.glsl says but not bfloat16, bias: [out], residual, y: [rows, out]; rows =
// ROWS ≤ 8; integer sums over sixteen, float32 beyond. An invocation needs the same depths of x for all its columns, so it rounds
// just these: nothing is shared but the sums at the end.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "linear/epilogue.glsl"
#include "lib/storage4.glsl"
#define WEIGHT_BINDING kLinearWeight
#define WEIGHT_FORMAT kLinearWeightFormat
#include "lib/dequantize.glsl"
#include "linear/int8.glsl"
#include "linear/row_sums.glsl"

layout(std430, binding = kLinearX) readonly buffer X { ELEMENT4 x[]; };
layout(std430, binding = kLinearGain) readonly buffer Gain { ELEMENT4 gain[]; };

// With a norm, what it multiplies all by is left out, and the squares are added up.
Int8Sixteen load_x(uint row, uint sixteen, inout float squares) {
    vec4 value[4];
    [[unroll]] for (uint q = 0; q < 4; ++q) {
        value[q] = LOAD4(x, row * (p.in_width / 4) + sixteen * 4 + q);
        if (!HAS_NORM) continue;
        squares = add_product(value[q], value[q], squares);
        value[q] *= (HAS_GAIN ? LOAD4(gain, sixteen * 4 + q) : vec4(1.0)) + p.norm_gain_offset;
    }
    return to_int8(value);
}

void main() {
    const uint first_column = linear_workgroup() * COLUMNS;
    if (first_column >= p.out_width) return;  // the whole workgroup leaves
    const uint row_blocks = p.in_width / BLOCK_ELEMENTS, blocks = row_blocks * p.out_width;

    float sum[kLinearMaxRows][kLinearMaxColumns], squares[kLinearMaxRows];
    [[unroll]] for (uint r = 0; r < kLinearMaxRows; ++r) {
        squares[r] = 0.0;
        [[unroll]] for (uint c = 0; c < kLinearMaxColumns; ++c) sum[r][c] = 0.0;
    }

    for (uint sixteen = gl_LocalInvocationIndex; sixteen < p.in_width / 16; sixteen += kLinearSumsWorkgroup) {
        Stored16 stored[kLinearMaxColumns];
        Place at[kLinearMaxColumns];
        [[unroll]] for (uint c = 0; c < kLinearMaxColumns; ++c) {
            if (c >= COLUMNS) continue;  // decided when the pipeline is made
            at[c] = place_of(weight_row_of(first_column + c, 1) * row_blocks, sixteen, 0);
            stored[c] = load16(at[c], blocks);
        }
        ivec4 packed[kLinearMaxColumns];
        vec2 scale[kLinearMaxColumns];
        [[unroll]] for (uint c = 0; c < kLinearMaxColumns; ++c) {
            if (c >= COLUMNS) continue;
            packed[c] = ivec4(quants16(stored[c], at[c]));
            scale[c] = scale16(stored[c], at[c]);
        }
        [[unroll]] for (uint r = 0; r < kLinearMaxRows; ++r) {
            if (r >= ROWS) continue;
            const Int8Sixteen value = load_x(r, sixteen, squares[r]);
            [[unroll]] for (uint c = 0; c < kLinearMaxColumns; ++c) {
                if (c >= COLUMNS) continue;
                sum[r][c] += scale[c].x * value.scale * float(dot16(packed[c], value.q));
                if (HAS_OFFSET) sum[r][c] += scale[c].y * value.total;
            }
        }
    }

    [[unroll]] for (uint r = 0; r < kLinearMaxRows; ++r)
        [[unroll]] for (uint c = 0; c < kLinearMaxColumns; ++c)
            if (r < ROWS && c < COLUMNS) put_part(r, c, sum[r][c]);
    if (HAS_NORM)
        [[unroll]] for (uint r = 0; r < kLinearMaxRows; ++r)
            if (r < ROWS) put_squares(r, squares[r]);
    finish_row_sums(first_column);
}
