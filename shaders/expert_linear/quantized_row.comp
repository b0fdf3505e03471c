#version 460
// SPDX-License-Identifier: MIT
// expert_linear/row.comp for weights in a format of their own (lib/dequantize.glsl): x and y as lib/storage.glsl says, sums in float32. An
// invocation owns every 64th strip of the depth, of all columns, and multiplies by the integers, as linear/quantized_row.comp does.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "expert_linear/product.glsl"
#include "lib/storage4.glsl"
#define WEIGHT_BINDING kLinearWeight
#define WEIGHT_FORMAT kLinearWeightFormat
#define BIASED_Q8
#include "lib/dequantize.glsl"

layout(std430, binding = kLinearX) readonly buffer X { ELEMENT4 x[]; };

void main() {
    uint first_column;
    if (!take_pair(first_column)) return;  // the whole workgroup leaves
    const uint row_blocks = p.in_width / BLOCK_ELEMENTS, blocks = row_blocks * weight_rows();
    const uint x_start = own_pair / p.sharing * (p.in_width / 4);

    float sum[COLUMNS];
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[c] = 0.0;
    for (uint strip = gl_LocalInvocationIndex; strip < p.in_width / (16 * STRIP_SIXTEENS); strip += gl_WorkGroupSize.x) {
        Strip weights[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
            weights[c] = load_strip(
                place_of_strip((weight_before() + min(first_column + c, p.out_width - 1)) * row_blocks, strip), blocks);
        vec4 scales[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) scales[c] = strip_scales(weights[c]);
        const uint sixteen = sixteen_of(place_of_strip(0, strip));
        [[unroll]] for (uint s = 0; s < STRIP_SIXTEENS; ++s) {
            vec4 value[4];
            [[unroll]] for (uint q = 0; q < 4; ++q) value[q] = LOAD4(x, x_start + (sixteen + s * STRIP_STEP) * 4 + q);
            const float total = dot(value[0] + value[1] + value[2] + value[3], vec4(1.0));
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                const Sixteen packed = s == 0 ? unpack16(weights[c].first, weights[c].at)
                                              : unpack16(weights[c].next, next_place(weights[c].at));
                float product = 0.0;
                [[unroll]] for (uint q = 0; q < 4; ++q) product = add_product(value[q], quad_of(packed, q), product);
                sum[c] += scales[c][2 * s] * product;
                if (HAS_OFFSET) sum[c] += scales[c][2 * s + 1] * total;
            }
        }
    }

    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) put_part(0, c, sum[c]);
    finish_row_sums(first_column);
}
