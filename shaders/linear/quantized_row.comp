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
    float product = add_product(x.quads[0], quad_of(quants, 0), 0.0);
    product = add_product(x.quads[1], quad_of(quants, 1), product);
    product = add_product(x.quads[2], quad_of(quants, 2), product);
    return add_product(x.quads[3], quad_of(quants, 3), product);
}
#endif

// Of a column that an invocation has at a time. More would be too many registers beside the sums of several rows.
const uint SIXTEENS = ROWS == 1 ? STRIP_SIXTEENS : 1;
Place place_of_step(uint first_block, uint step) {
    if (SIXTEENS == 1) return place_of(first_block, step, 0);
    return place_of_strip(first_block, step);
}
Place place_in_column(uint column, uint step) {
    return place_of_step(weight_row_of(column, 1) * (p.in_width / BLOCK_ELEMENTS), step);
}
Strip load_step(Place at, uint blocks) {
    if (SIXTEENS > 1) return load_strip(at, blocks);
    const Stored16 only = load16(at, blocks);
    return Strip(at, only, only);
}

// With a norm, what it multiplies all by is left out, and the squares are added up.
vec4 load_quad(uint row, uint quad, inout float squares) {
    const vec4 value = LOAD4(x, row * (p.in_width / 4) + quad);
    if (!HAS_NORM) return value;
    squares = add_product(value, value, squares);
    return value * ((HAS_GAIN ? LOAD4(gain, quad) : vec4(1.0)) + p.norm_gain_offset);
}

XSixteen load_x(uint row, uint sixteen, inout float squares) {
    vec4 value[4];
    value[0] = load_quad(row, sixteen * 4, squares);
    value[1] = load_quad(row, sixteen * 4 + 1, squares);
    value[2] = load_quad(row, sixteen * 4 + 2, squares);
    value[3] = load_quad(row, sixteen * 4 + 3, squares);
    return x_sixteen(value);
}

void main() {
    const uint first_column = split_workgroup() * COLUMNS;
    if (first_column >= p.out_width) return;  // the whole workgroup leaves
    const uint blocks = p.in_width / BLOCK_ELEMENTS * p.out_width;

    // Bounds that are known when the pipeline is made, not before: compilers that keep an array in registers only where its indices are
    // constants then unroll what is there, and nothing else.
    vec4 sum[ROW_QUADS * COLUMNS], squares[ROW_QUADS];
    [[unroll]] for (uint i = 0; i < ROW_QUADS; ++i) squares[i] = vec4(0.0);
    [[unroll]] for (uint i = 0; i < ROW_QUADS * COLUMNS; ++i) sum[i] = vec4(0.0);

    const uvec2 part = steps_of_split(p.in_width / (16 * SIXTEENS));
    for (uint step = part.x + gl_LocalInvocationIndex; step < part.y; step += gl_WorkGroupSize.x) {
        Stored16 first[COLUMNS], next[COLUMNS];  // of strips, whose places in the rows are one: as small as arrays can be
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            const Strip strip = load_step(place_in_column(first_column + c, step), blocks);
            first[c] = strip.first;
            next[c] = strip.next;
        }
        vec4 scales[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            const Place at = place_in_column(first_column + c, step);
            scales[c] = SIXTEENS == 1 ? vec4(scale16(first[c], at), vec2(0.0)) : strip_scales(Strip(at, first[c], next[c]));
        }
        const uint sixteen = sixteen_of(place_of_step(0, step));
        [[unroll]] for (uint s = 0; s < SIXTEENS; ++s) {
            Quants quants[COLUMNS];
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                const Place at = place_in_column(first_column + c, step);
                quants[c] = s == 0 ? quants_of(first[c], at) : quants_of(next[c], next_place(at));
            }
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                const XSixteen x_row = load_x(r, sixteen + s * STRIP_STEP, squares[r / 4][r % 4]);
                [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                    float of_both = sum[r / 4 * COLUMNS + c][r % 4] + scales[c][2 * s] * product_of(quants[c], x_row);
                    if (HAS_OFFSET) of_both += scales[c][2 * s + 1] * x_row.total;
                    sum[r / 4 * COLUMNS + c][r % 4] = of_both;
                }
            }
        }
    }

    [[unroll]] for (uint r = 0; r < ROWS; ++r)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) put_part(r, c, sum[r / 4 * COLUMNS + c][r % 4]);
    if (HAS_NORM)
        [[unroll]] for (uint r = 0; r < ROWS; ++r) put_squares(r, squares[r / 4][r % 4]);
    finish_row_sums(first_column);
}
