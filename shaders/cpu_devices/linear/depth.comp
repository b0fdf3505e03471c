#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual, for Vulkan devices that are CPUs with subgroups of 8 and have buffer addresses, few rows (a decode
// step) whose width is a multiple of WORDS words of 32 bits.
// x: [rows, in], weight: [out, in], bias: [out], residual, y: [rows, out], rows = ROWS ≤ 4; storage as lib/storage.glsl says
// (residual and y: linear/epilogue.glsl), sums in float32.
// A workgroup is a subgroup and takes tiles of kCpuLinearDepthColumns columns of y, for all rows; a lane owns every 8th word of the depth. So
// x and the weights are loaded as vectors (cpu_devices/lib/vectors.glsl), in the order of their addresses, a few rows of weight side by side, which a
// CPU sees coming and fetches ahead. With a norm the rows are staged (cpu_devices/lib/staged.glsl): there is no register left for it in the loop.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define VECTORS
#define STAGED
#include "cpu_devices/linear/contract.h"
#include "linear/epilogue.glsl"
#include "cpu_devices/lib/wide.glsl"
#include "cpu_devices/lib/lane_sums.glsl"
#include "cpu_devices/lib/vectors.glsl"
#define TAKEN_BINDING kCpuLinearTaken
#include "cpu_devices/lib/tiles.glsl"

layout(constant_id = kLinearRows) const uint ROWS = 1;
layout(constant_id = kCpuLinearDepthWords) const uint WORDS = kCpuLinearFewWords;

const uint COLUMNS = kCpuLinearDepthColumns, LANES = kCpuLanes, VECTOR = LANES * 4;  // bytes

#include "cpu_devices/lib/staged.glsl"

vec4 elements_at(uint64_t address) {
#ifdef F16
    return word_elements(word_vector(address, address + VECTOR / 2));
#else
    return word_elements(float_vector(address, address + VECTOR / 2));
#endif
}

vec4 row_elements_at(uint row, uint word) {
    return elements_at(x_address + uint64_t(row * (p.in_width / WORD_ELEMENTS) + word) * 4);
}

// Lays row `row` out and returns what its sums are to be multiplied by.
float stage(uint row) {
    float squares = 0.0;
    for (uint word = 0; word < p.in_width / WORD_ELEMENTS; word += LANES) {
        const uint clamped = min(word, p.in_width / WORD_ELEMENTS - LANES);
        const vec4 gain = (HAS_GAIN ? elements_at(gain_address + uint64_t(clamped) * 4) : vec4(1.0)) + p.norm_gain_offset;
        const vec4 value = row_elements_at(row, clamped);
        [[unroll]] for (uint e = 0; e < WORD_ELEMENTS; ++e) {
            squares = fma(value[e], value[e], squares);
            store_staged(row, clamped * WORD_ELEMENTS + e * LANES, value[e] * gain[e]);
        }
    }
    return norm_scale(lane_sum(squares));
}

vec4 value_at(uint row, uint word) {
    if (!HAS_NORM) return row_elements_at(row, word);
    vec4 value;
    [[unroll]] for (uint e = 0; e < WORD_ELEMENTS; ++e) value[e] = load_staged(row, word * WORD_ELEMENTS + e * LANES);
    return value;
}

void tile_at(uint first_column, float scale[kCpuLinearDepthMaxRows]) {
    const uint width = p.in_width / WORD_ELEMENTS;  // words

    uint64_t weight_row[COLUMNS];  // columns past the last repeat it: their sums are not stored
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
        weight_row[c] = weight_address + uint64_t(weight_row_of(first_column + c, LANES) * width) * 4;

    float sum[kCpuLinearDepthMaxRows][COLUMNS];
    [[unroll]] for (uint r = 0; r < kCpuLinearDepthMaxRows; ++r)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[r][c] = 0.0;

    for (uint k = 0; k < width; k += WORDS) {
        const uint clamped = min(k, width - WORDS);
        [[unroll]] for (uint part = 0; part < WORDS / LANES; ++part) {
            const uint word = clamped + part * LANES;
            const uint64_t at = uint64_t(word) * 4;
            vec4 value[kCpuLinearDepthMaxRows];
            [[unroll]] for (uint r = 0; r < kCpuLinearDepthMaxRows; ++r) {
                if (r >= ROWS) continue;  // decided when the pipeline is made
                value[r] = value_at(r, word);
            }
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                const vec4 w = elements_at(weight_row[c] + at);
                [[unroll]] for (uint r = 0; r < kCpuLinearDepthMaxRows; ++r) {
                    if (r >= ROWS) continue;
                    [[unroll]] for (uint e = 0; e < WORD_ELEMENTS; ++e) sum[r][c] = fma(value[r][e], w[e], sum[r][c]);
                }
            }
        }
    }

    [[unroll]] for (uint r = 0; r < kCpuLinearDepthMaxRows; ++r) {
        if (r >= ROWS) continue;
        float own[COLUMNS / LANES];  // of the columns first_column + lane, …
        [[unroll]] for (uint c = 0; c < COLUMNS / LANES; ++c) {
            float parts[LANES];
            [[unroll]] for (uint i = 0; i < LANES; ++i) parts[i] = sum[r][c * LANES + i];
            own[c] = lane_sums(parts);
        }
        if (HAS_NORM) {
            [[unroll]] for (uint c = 0; c < COLUMNS / LANES; ++c) own[c] *= scale[r];
        }
        [[unroll]] for (uint c = 0; c < COLUMNS / LANES; ++c)
            FINISH_COLUMN(r, first_column + gl_SubgroupInvocationID, LANES, c, own)
    }
}

void main() {
    const uint tiles = (p.out_width + COLUMNS - 1) / COLUMNS;
    uint tile = take_tile(tiles);
    if (tile >= tiles) return;
    float scale[kCpuLinearDepthMaxRows];
    if (HAS_NORM) {
        [[unroll]] for (uint r = 0; r < kCpuLinearDepthMaxRows; ++r)
            if (r < ROWS) scale[r] = stage(r);
        subgroupMemoryBarrierBuffer();
    }
    for (; tile < tiles; tile = take_tile(tiles))
        tile_at(min(tile, tiles - 1) * COLUMNS, scale);  // cpu_devices/lib/vectors.glsl: also where there is none
}
