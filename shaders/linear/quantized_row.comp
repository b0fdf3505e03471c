#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual for weights in a format of their own and few rows (a decode step), where reading the
// weights once is all the cost.
// x: [rows, in], weight: [out, in] as lib/dequantize.glsl says, bias: [out], residual, y: [rows, out], rows = ROWS ≤ 8; sums in
// float32. One workgroup per COLUMNS columns of y, for all rows. The strips of the depth, or of several rows its sixteens, are dealt out to
// its invocations: each loads its own of all columns, 16-byte vectors beside its neighbours', and multiplies by the integers; scale and
// offset apply to the sums of a sixteen:
//     Σ (scale · q + offset) · x = scale · Σ q · x + offset · Σ x
// INT8: the activations are rounded to 8 bits, sixteen with a scale (linear/int8.glsl), and weights are not bfloat16: four products for one
// instruction. With x ≈ t · i
//     Σ (scale · q + offset) · x ≈ scale · t · Σ q · i + offset · t · Σ i      q, i integers of 8 bits
// linear/split_depth.glsl says what a workgroup does with a part of the depth.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "linear/epilogue.glsl"
#include "lib/storage4.glsl"
#define WEIGHT_BINDING kLinearWeight
#define WEIGHT_FORMAT kLinearWeightFormat
#ifndef INT8
#define BIASED_Q8
#endif
#include "lib/dequantize.glsl"
#include "linear/split_depth.glsl"
#include "linear/row_sums.glsl"

layout(std430, binding = kLinearX) readonly buffer X { ELEMENT4 x[]; };
layout(std430, binding = kLinearGain) readonly buffer Gain { ELEMENT4 gain[]; };

#ifdef INT8
#include "linear/int8.glsl"
#define XSixteen Int8Sixteen
XSixteen x_sixteen(vec4 value[4]) { return to_int8(value); }
#define Quants ivec4
Quants quants_of(Stored16 stored, Place at) { return ivec4(quants16(stored, at)); }
float product_of(Quants quants, XSixteen x) { return x.scale * float(dot16(quants, x.q)); }
#else
struct XSixteen {
    vec4 quads[4];
    float total;
};
XSixteen x_sixteen(vec4 value[4]) { return XSixteen(value, dot(value[0] + value[1] + value[2] + value[3], vec4(1.0))); }
#define Quants Sixteen
Quants quants_of(Stored16 stored, Place at) { return unpack16(stored, at); }
float product_of(Quants quants, XSixteen x) {
    float product = 0.0;
    [[unroll]] for (uint q = 0; q < 4; ++q) product = add_product(x.quads[q], quad_of(quants, q), product);
    return product;
}
#endif

// Of a column that an invocation has at a time. More would be too many registers beside the sums of several rows.
const uint SIXTEENS = ROWS == 1 ? STRIP_SIXTEENS : 1;
Place place_of_step(uint first_block, uint step) {
    if (SIXTEENS == 1) return place_of(first_block, step, 0);
    return place_of_strip(first_block, step);
}
Strip load_step(Place at, uint blocks) {
    if (SIXTEENS > 1) return load_strip(at, blocks);
    const Stored16 only = load16(at, blocks);
    return Strip(at, only, only);
}

// With a norm, what it multiplies all by is left out, and the squares are added up.
XSixteen load_x(uint row, uint sixteen, inout float squares) {
    vec4 value[4];
    [[unroll]] for (uint q = 0; q < 4; ++q) {
        value[q] = LOAD4(x, row * (p.in_width / 4) + sixteen * 4 + q);
        if (!HAS_NORM) continue;
        squares = add_product(value[q], value[q], squares);
        value[q] *= (HAS_GAIN ? LOAD4(gain, sixteen * 4 + q) : vec4(1.0)) + p.norm_gain_offset;
    }
    return x_sixteen(value);
}

void main() {
    const uint first_column = split_workgroup() * COLUMNS;
    if (first_column >= p.out_width) return;  // the whole workgroup leaves
    const uint row_blocks = p.in_width / BLOCK_ELEMENTS, blocks = row_blocks * p.out_width;

    // Bounds that are known when the pipeline is made, not before: compilers that keep an array in registers only where its indices are
    // constants then unroll what is there, and nothing else.
    float sum[ROWS * COLUMNS], squares[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) squares[r] = 0.0;
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; ++i) sum[i] = 0.0;

    const uvec2 part = steps_of_split(p.in_width / (16 * SIXTEENS));
    for (uint step = part.x + gl_LocalInvocationIndex; step < part.y; step += gl_WorkGroupSize.x) {
        Strip weights[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
            weights[c] = load_step(place_of_step(weight_row_of(first_column + c, 1) * row_blocks, step), blocks);
        vec4 scales[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
            scales[c] = SIXTEENS == 1 ? vec4(scale16(weights[c].first, weights[c].at), vec2(0.0)) : strip_scales(weights[c]);
        const uint sixteen = sixteen_of(place_of_step(0, step));
        [[unroll]] for (uint s = 0; s < SIXTEENS; ++s) {
            Quants quants[COLUMNS];
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
                quants[c] = s == 0 ? quants_of(weights[c].first, weights[c].at)
                                   : quants_of(weights[c].next, next_place(weights[c].at));
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                const XSixteen x_row = load_x(r, sixteen + s * STRIP_STEP, squares[r]);
                [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                    sum[r * COLUMNS + c] += scales[c][2 * s] * product_of(quants[c], x_row);
                    if (HAS_OFFSET) sum[r * COLUMNS + c] += scales[c][2 * s + 1] * x_row.total;
                }
            }
        }
    }

    [[unroll]] for (uint r = 0; r < ROWS; ++r)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) put_part(r, c, sum[r * COLUMNS + c]);
    if (HAS_NORM)
        [[unroll]] for (uint r = 0; r < ROWS; ++r) put_squares(r, squares[r]);
    finish_row_sums(first_column);
}
