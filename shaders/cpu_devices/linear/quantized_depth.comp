#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual for weights of q8_0 and q4_0, on Vulkan devices that are CPUs with subgroups of 8 and have buffer
// addresses, few rows (a decode step) whose width is a multiple of kCpuLinearQuantizedDepth.
// x: [rows, in], weight: [out, in] as lib/dequantize.glsl says, bias: [out], residual, y: [rows, out], rows = ROWS ≤ 4; float32.
// As cpu_devices/linear/depth.comp: a workgroup is a subgroup and takes tiles of kCpuLinearDepthColumns columns of y, for all rows; the weights are loaded as
// vectors (cpu_devices/lib/vectors.glsl), in the order of their addresses. kCpuLinearQuantizedDepth elements are two blocks: two vectors of q8_0, one of q4_0.
// A lane holds four neighbouring integers of a block in a word, so x is wanted in that order. A gather costs as much as what is done to a
// column, so a workgroup stages its rows (cpu_devices/lib/staged.glsl). Scales are applied to the sums over a block, and of q4_0 the offset, −8 · scale, to the sum of x.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define VECTORS
#define STAGED
#include "cpu_devices/linear/contract.h"
#include "linear/epilogue.glsl"
#include "cpu_devices/lib/lane_sums.glsl"
#include "cpu_devices/lib/vectors.glsl"
#define TAKEN_BINDING kCpuLinearTaken
#include "cpu_devices/lib/tiles.glsl"

layout(constant_id = kLinearRows) const uint ROWS = 1;
layout(constant_id = kLinearWeightFormat) const uint FORMAT = kWeightQ8_0;
const bool IS_Q8 = FORMAT == kWeightQ8_0;

const uint COLUMNS = kCpuLinearDepthColumns, LANES = kCpuLanes;
const uint BLOCK_BYTES = IS_Q8 ? 32 : 16;

#include "cpu_devices/lib/staged.glsl"

layout(std430, binding = kLinearX) readonly buffer X { float x[]; };
layout(std430, binding = kLinearGain) readonly buffer Gain { float gain[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer TwoScales { uint v; };

const uint VECTORS_OF_TWO = kCpuLinearQuantizedDepth / LANES;  // blocks

// Where in two blocks lane l has the element of vector v. Of q8_0 a vector of words is a block; of q4_0 half a vector is, and the low
// halves of bytes are its first 16 elements.
uint place_of(uint v, uint l) {
    const uint low = IS_Q8 ? 4 * l : l / 4 * 32 + l % 4 * 4;
    return low + v % 4 + v / 4 * (IS_Q8 ? 32 : 16);
}

// Lays row `row` out and returns what its sums are to be multiplied by.
float stage(uint row) {
    const uint lane = gl_SubgroupInvocationID;
    float squares = 0.0;
    for (uint pair = 0; pair < p.in_width; pair += kCpuLinearQuantizedDepth) {
        [[unroll]] for (uint v = 0; v < VECTORS_OF_TWO; ++v) {
            const uint i = pair + place_of(v, lane);
            float value = x[row * p.in_width + i];
            if (HAS_NORM) {
                squares = fma(value, value, squares);
                value *= (HAS_GAIN ? gain[i] : 1.0) + p.norm_gain_offset;
            }
            store_staged(row, pair + v * LANES, value);
        }
    }
    return HAS_NORM ? norm_scale(lane_sum(squares)) : 1.0;
}

struct Row {
    float x[VECTORS_OF_TWO];
    float sum;  // for the offsets of q4_0
};

Row row_at(uint row, uint pair) {
    Row result;
    result.sum = 0.0;
    [[unroll]] for (uint v = 0; v < VECTORS_OF_TWO; ++v) {
        result.x[v] = load_staged(row, pair + v * LANES);
        result.sum += result.x[v];
    }
    return result;
}

uint words_at(uint64_t address) { return word_vector(address, address + LANES * 2); }

void tile_at(uint first_column, float scale[kCpuLinearDepthMaxRows]) {
    const uint blocks = p.in_width / 32;  // of a row
    const uint64_t scales = weight_address + uint64_t(p.out_width * blocks) * BLOCK_BYTES;

    uint block[COLUMNS];  // of a column the first; columns past the last repeat it: their sums are not stored
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) block[c] = weight_row_of(first_column + c, LANES) * blocks;

    float sum[kCpuLinearDepthMaxRows][COLUMNS];
    [[unroll]] for (uint r = 0; r < kCpuLinearDepthMaxRows; ++r)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[r][c] = 0.0;

    for (uint step = 0; step < blocks; step += kCpuLinearQuantizedDepth / 32) {
        const uint pair = min(step, blocks - 2);
        Row row[kCpuLinearDepthMaxRows];
        [[unroll]] for (uint r = 0; r < kCpuLinearDepthMaxRows; ++r) {
            if (r >= ROWS) continue;  // decided when the pipeline is made
            row[r] = row_at(r, pair * 32);
        }
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            const uint64_t at = weight_address + uint64_t(block[c] + pair) * BLOCK_BYTES;
            const vec2 scale = unpackHalf2x16(TwoScales(scales + uint64_t(block[c] + pair) * 2).v);
            const uint low = words_at(at), high = IS_Q8 ? words_at(at + BLOCK_BYTES) : 0;
            float w[2 * 4];
            [[unroll]] for (uint q = 0; q < 4; ++q) {
                w[q] = IS_Q8 ? float(bitfieldExtract(int(low), int(8 * q), 8)) : float((low >> (8 * q)) & 15u);
                w[4 + q] = IS_Q8 ? float(bitfieldExtract(int(high), int(8 * q), 8)) : float((low >> (8 * q + 4)) & 15u);
            }
            [[unroll]] for (uint r = 0; r < kCpuLinearDepthMaxRows; ++r) {
                if (r >= ROWS) continue;
                float first = 0.0, second = 0.0;
                [[unroll]] for (uint q = 0; q < 4; ++q) {
                    first = fma(row[r].x[q], w[q], first);
                    second = fma(row[r].x[4 + q], w[4 + q], second);
                }
                if (IS_Q8)
                    sum[r][c] = fma(first, scale.x, fma(second, scale.y, sum[r][c]));
                else
                    sum[r][c] = fma(fma(row[r].sum, -8.0, first + second), gl_SubgroupInvocationID < 4 ? scale.x : scale.y, sum[r][c]);
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
    [[unroll]] for (uint r = 0; r < kCpuLinearDepthMaxRows; ++r)
        if (r < ROWS) scale[r] = stage(r);
    subgroupMemoryBarrierBuffer();
    for (; tile < tiles; tile = take_tile(tiles))
        tile_at(min(tile, tiles - 1) * COLUMNS, scale);  // cpu_devices/lib/vectors.glsl: also where there is none
}
