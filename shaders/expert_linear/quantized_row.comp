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

Place place_in_column(uint column, uint strip) {
    return place_of_strip((weight_before() + min(column, p.out_width - 1)) * (p.in_width / BLOCK_ELEMENTS), strip);
}

void main() {
    uint first_column;
    if (!take_pair(first_column)) return;  // the whole workgroup leaves
    const uint blocks = p.in_width / BLOCK_ELEMENTS * weight_rows();
    const uint x_start = own_pair / p.sharing * (p.in_width / 4);

    float sum[COLUMNS];
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[c] = 0.0;
    for (uint strip = gl_LocalInvocationIndex; strip < p.in_width / (16 * STRIP_SIXTEENS); strip += gl_WorkGroupSize.x) {
        Stored16 first[COLUMNS], next[COLUMNS];  // as in linear/quantized_row.comp
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            const Strip loaded = load_strip(place_in_column(first_column + c, strip), blocks);
            first[c] = loaded.first;
            next[c] = loaded.next;
        }
        vec4 scales[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
            scales[c] = strip_scales(Strip(place_in_column(first_column + c, strip), first[c], next[c]));
        const uint sixteen = sixteen_of(place_of_strip(0, strip));
        [[unroll]] for (uint s = 0; s < STRIP_SIXTEENS; ++s) {
            const uint quad = x_start + (sixteen + s * STRIP_STEP) * 4;
            const mat4 value = mat4(LOAD4(x, quad), LOAD4(x, quad + 1), LOAD4(x, quad + 2), LOAD4(x, quad + 3));
            const float total = dot(value[0] + value[1] + value[2] + value[3], vec4(1.0));
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                const Place at = place_in_column(first_column + c, strip);
                const Sixteen packed = s == 0 ? unpack16(first[c], at) : unpack16(next[c], next_place(at));
                float product = add_product(value[0], quad_of(packed, 0), 0.0);
                product = add_product(value[1], quad_of(packed, 1), product);
                product = add_product(value[2], quad_of(packed, 2), product);
                product = add_product(value[3], quad_of(packed, 3), product);
                sum[c] += scales[c][2 * s] * product;
                if (HAS_OFFSET) sum[c] += scales[c][2 * s + 1] * total;
            }
        }
    }

    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) put_part(0, c, sum[c]);
    finish_row_sums(first_column);
}
