// SPDX-License-Identifier: MIT
// The epilogue of linear/epilogue.glsl for eight neighbouring results at a time, of float16 tensors: loads and stores of 16 bytes. With one
// result after the other a product of 4096³ took 5 to 13 % longer on an H200. Included behind linear/split_depth.glsl.
#ifndef VKFORMER_LINEAR_OCTETS_GLSL
#define VKFORMER_LINEAR_OCTETS_GLSL
layout(std430, binding = kLinearBias) readonly buffer BiasOctets { uvec4 bias_octets[]; };
layout(std430, binding = kLinearResidual) readonly buffer ResidualOctets { uvec4 residual_octets[]; };
layout(std430, binding = kLinearY) writeonly buffer YOctets { uvec4 y_octets[]; };
layout(std430, binding = kLinearPartial) writeonly buffer PartialQuads { vec4 partial_quads[]; };

// Whether rows of y, and partial sums, begin with one.
bool has_octets() {
    const uint width = END == kLinearEndGate ? p.out_width / 2 : p.out_width;
    return width % 8 == 0 && p.partial_before % 4 == 0;
}

void add_octet(inout vec2 sums[4], uvec4 octet) {
    [[unroll]] for (uint i = 0; i < 4; ++i) sums[i] += unpackHalf2x16(octet[i]);
}

void put_partial_octet(uint row, uint column, vec2 sums[4]) {
    const uint at = partial_at(row, column) / 4;
    partial_quads[at] = vec4(sums[0], sums[1]);
    partial_quads[at + 1] = vec4(sums[2], sums[3]);
}

// The sums of columns column … column + 7 of y; with a gate they are the gate's, and `others` those of the other half.
void finish_octet(uint row, uint column, vec2 sums[4], vec2 others[4]) {
    const bool is_gated = END == kLinearEndGate;
    const uint half_width = p.out_width / 2, width = is_gated ? half_width : p.out_width;
    if (SPLITS != 1) {
        put_partial_octet(row, column, sums);
        if (is_gated) put_partial_octet(row, half_width + column, others);
        return;
    }
    if (HAS_BIAS == 1) {
        add_octet(sums, bias_octets[column / 8]);
        if (is_gated) add_octet(others, bias_octets[(half_width + column) / 8]);
    }
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        sums[i] = vec2(activated(ACTIVATION, sums[i].x), activated(ACTIVATION, sums[i].y));
        if (is_gated) sums[i] *= others[i];
    }
    const uint at = ((workgroup_plane() * p.rows + row) * width + column) / 8;
    if (END == kLinearEndResidual) add_octet(sums, residual_octets[at]);
    uvec4 halves;
    [[unroll]] for (uint i = 0; i < 4; ++i) halves[i] = packHalf2x16(sums[i]);
    y_octets[at] = halves;
}
#endif
