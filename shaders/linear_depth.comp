#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual, for Vulkan devices that are CPUs with subgroups of 8, few rows (a decode step) whose width is a
// multiple of what 16 bytes hold: 4 floats or 8 halves.
// x: [rows, in], weight: [out, in], bias: [out], residual, y: [rows, out], rows = ROWS ≤ 8; storage as lib/storage.glsl says
// (residual and y: lib/linear.glsl), sums in float32.
// A workgroup is a subgroup and owns kLinearDepthColumns columns of y, for all rows; a lane owns every 8th vector of 16 bytes of the
// depth. So the weights are read in the order of their addresses, a few rows side by side, which a CPU sees coming and fetches ahead;
// linear_direct.comp takes fewer instructions, and is faster where the weights are in the cache.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "lib/linear.glsl"
#include "lib/wide.glsl"

layout(constant_id = kLinearRowsConstant) const uint ROWS = 1;
layout(std430, binding = kLinearX) readonly buffer X { u64vec2 x[]; };
layout(std430, binding = kLinearWeight) readonly buffer Weight { u64vec2 weight[]; };

const uint COLUMNS = kLinearDepthColumns;
#ifdef F16
const uint QUADS = 2;  // of a vector
vec4 quad_of(u64vec2 v, uint quad) { return word_elements(quad == 0 ? v.x : v.y); }
#else
const uint QUADS = 1;
vec4 quad_of(u64vec2 v, uint quad) { return uintBitsToFloat(wide_words(v)); }
#endif

void main() {
    const uint first_column = linear_workgroup() * COLUMNS;
    if (first_column >= p.out_width) return;
    const uint width = p.in_width / (4 * QUADS);

    uint weight_row[COLUMNS];  // columns past the last repeat it: their sums are not stored
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
        weight_row[c] = (weight_before() + weight_row_of(first_column + c, 1)) * width;

    float sum[kLinearMaxRows][COLUMNS];
    [[unroll]] for (uint r = 0; r < kLinearMaxRows; ++r)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[r][c] = 0.0;

    for (uint k = gl_SubgroupInvocationID; k < width; k += kBroadcastLanes) {
        u64vec2 w[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) w[c] = weight[weight_row[c] + k];
        [[unroll]] for (uint r = 0; r < kLinearMaxRows; ++r) {
            if (r >= ROWS) continue;  // decided when the pipeline is made
            const u64vec2 value = x[(x_before() + r) * width + k];
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
                [[unroll]] for (uint q = 0; q < QUADS; ++q)
                    sum[r][c] = add_product(quad_of(value, q), quad_of(w[c], q), sum[r][c]);
        }
    }

    [[unroll]] for (uint r = 0; r < kLinearMaxRows; ++r) {
        if (r >= ROWS) continue;
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[r][c] = subgroupAdd(sum[r][c]);
        if (gl_SubgroupInvocationID != 0) continue;
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
            FINISH_COLUMN(r, first_column, 1, c, sum[r])
    }
}
