#version 460
// SPDX-License-Identifier: MIT
// expert_linear/row.comp for weights in a format of their own (lib/dequantize.glsl): x and y as lib/storage.glsl says, sums in float32. An
// invocation owns every 64th sixteen of the depth, of all columns, and multiplies by the integers, as linear/quantized_row.comp does.
// Shared memory: 32 sums · 65 · 4 = 8320 bytes.
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

    float sum[kLinearMaxColumns];
    [[unroll]] for (uint c = 0; c < kLinearMaxColumns; ++c) sum[c] = 0.0;
    for (uint sixteen = gl_LocalInvocationIndex; sixteen < p.in_width / 16; sixteen += kLinearSumsWorkgroup) {
        Stored16 stored[kLinearMaxColumns];
        Place at[kLinearMaxColumns];
        [[unroll]] for (uint c = 0; c < kLinearMaxColumns; ++c) {
            if (c >= COLUMNS) continue;  // decided when the pipeline is made
            at[c] = place_of((weight_before() + min(first_column + c, p.out_width - 1)) * row_blocks, sixteen, 0);
            stored[c] = load16(at[c], blocks);
        }
        vec4 value[4];
        [[unroll]] for (uint q = 0; q < 4; ++q) value[q] = LOAD4(x, x_start + sixteen * 4 + q);
        const float total = dot(value[0] + value[1] + value[2] + value[3], vec4(1.0));
        [[unroll]] for (uint c = 0; c < kLinearMaxColumns; ++c) {
            if (c >= COLUMNS) continue;
            const Sixteen packed = unpack16(stored[c], at[c]);
            const vec2 scale = scale16(stored[c], at[c]);
            float product = 0.0;
            [[unroll]] for (uint q = 0; q < 4; ++q) product = add_product(value[q], quad_of(packed, q), product);
            sum[c] += scale.x * product;
            if (HAS_OFFSET) sum[c] += scale.y * total;
        }
    }

    [[unroll]] for (uint c = 0; c < kLinearMaxColumns; ++c)
        if (c < COLUMNS) put_part(0, c, sum[c]);
    finish_row_sums(first_column);
}
