#version 460
// SPDX-License-Identifier: MIT
// y[b, i, h, v] = Σ_j weights[b, h, i, j] · value[b, j, h / (heads / kv_heads), v]
// weights: [batch, heads, query_len, key_len] float32; value: [batch, key_len, kv_heads, value_dim],
// y: [batch, query_len, heads, value_dim], storage as lib/storage.glsl says, sums in float32.
// The outer product of Vaswani et al. 2017, eq. 1.
// A workgroup owns a tile of TILE queries × TILE columns v of one head; invocation (row, column) of its 8 × 8 owns the
// sums of queries row + 8r and columns column + 8c, so that neighbours store neighbouring columns.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "weighted_sum/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID WeightedSumPush p; };
layout(std430, binding = kWeightedSumWeights) readonly buffer Weights { float weights[]; };
layout(std430, binding = kWeightedSumValue) readonly buffer Value { ELEMENT value[]; };
layout(std430, binding = kWeightedSumY) STORED buffer Y { ELEMENT y[]; };

// 2 · 32 · 33 · 4 bytes = 8.25 KiB of shared memory, 16 sums and 8 operands per invocation; a tile of 64: 33 KiB.
const uint TILE = kWeightedSumTile;
const uint PITCH = TILE + 1;  // not 32: the rows of weights that are read at a time then lie in different banks
const uint SIDE = 8;
const uint STEPS = TILE / SIDE;
shared float weight_tile[TILE * PITCH];  // [query, key]
shared float value_tile[TILE * PITCH];   // [key, column]

void main() {
    const uint query_tiles = (p.query_len + TILE - 1) / TILE;
    const uint column_tiles = (p.value_dim + TILE - 1) / TILE;
    const uint workgroup = linear_workgroup();
    const uint first_column = workgroup % column_tiles * TILE;
    const uint first_query = workgroup / column_tiles % query_tiles * TILE;
    const uint batch_head = workgroup / column_tiles / query_tiles;
    const uint batch = batch_head / p.heads;
    const uint head = batch_head % p.heads;
    if (batch >= p.batch) return;  // the whole workgroup leaves
    const uint kv_head = head / (p.heads / p.kv_heads);

    const uint row = gl_LocalInvocationIndex / SIDE;
    const uint column = gl_LocalInvocationIndex % SIDE;
    float sums[STEPS * STEPS];
    [[unroll]] for (uint s = 0; s < STEPS * STEPS; ++s) sums[s] = 0.0;

    for (uint first_key = 0; first_key < p.key_len; first_key += TILE) {
        const uint keys = min(TILE, p.key_len - first_key);
        barrier();  // the tiles may still be read
        for (uint e = gl_LocalInvocationIndex; e < TILE * TILE; e += gl_WorkGroupSize.x) {
            const uint line = e / TILE;
            const uint at = e % TILE;
            // Queries and columns past the end repeat the last one, are not stored; keys past it are not read below.
            const uint i = min(first_query + line, p.query_len - 1);
            const uint v = min(first_column + at, p.value_dim - 1);
            if (at < keys)
                weight_tile[line * PITCH + at] =
                    weights[((batch * p.heads + head) * p.query_len + i) * p.key_len + first_key + at];
            if (line < keys)
                value_tile[line * PITCH + at] =
                    LOAD(value, ((batch * p.key_len + first_key + line) * p.kv_heads + kv_head) * p.value_dim + v);
        }
        barrier();

        for (uint j = 0; j < keys; ++j) {
            float values[STEPS];
            [[unroll]] for (uint c = 0; c < STEPS; ++c) values[c] = value_tile[j * PITCH + column + c * SIDE];
            [[unroll]] for (uint r = 0; r < STEPS; ++r) {
                const float weight = weight_tile[(row + r * SIDE) * PITCH + j];
                [[unroll]] for (uint c = 0; c < STEPS; ++c) sums[r * STEPS + c] += weight * values[c];
            }
        }
    }

    [[unroll]] for (uint r = 0; r < STEPS; ++r) {
        const uint i = first_query + row + r * SIDE;
        if (i >= p.query_len) continue;
        const uint base = ((batch * p.query_len + i) * p.heads + head) * p.value_dim;
        [[unroll]] for (uint c = 0; c < STEPS; ++c) {
            const uint v = first_column + column + c * SIDE;
            if (v < p.value_dim) STORE(y, base + v, sums[r * STEPS + c]);
        }
    }
}
