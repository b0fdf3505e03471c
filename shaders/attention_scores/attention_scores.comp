#version 460
// SPDX-License-Identifier: MIT
// scores[b, h, i, j] = scale · Σ_d query[b, i, h, d] · key[b, j, h / (heads / kv_heads), d], capped as lib/soft_cap.glsl says
// query: [batch, query_len, heads, head_dim], key: [batch, key_len, kv_heads, head_dim], storage as lib/storage.glsl
// says; scores: [batch, heads, query_len, key_len] float32. The product inside Vaswani et al. 2017, eq. 1.
// A workgroup owns a tile of TILE queries × TILE keys of one head; invocation (row, column) of its 8 × 8 owns the
// scores of queries row + 8r and keys column + 8c, so that neighbours store neighbouring keys.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "attention_scores/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kAttentionScoresHasSoftCap) const uint HAS_SOFT_CAP = 0;
layout(push_constant) uniform Push { PART_OF_GRID AttentionScoresPush p; };
layout(std430, binding = kAttentionScoresQuery) readonly buffer Query { ELEMENT query[]; };
layout(std430, binding = kAttentionScoresKey) readonly buffer Key { ELEMENT key[]; };
layout(std430, binding = kAttentionScoresScores) writeonly buffer Scores { float scores[]; };
#include "lib/soft_cap.glsl"

// 2 · 32 · 33 · 4 bytes = 8.25 KiB of shared memory, 16 sums and 8 operands per invocation; a tile of 64: 33 KiB.
const uint TILE = kAttentionScoresTile;
const uint PITCH = TILE + 1;  // not 32: the 8 rows that are read at a time then lie in different banks
const uint SIDE = 8;
const uint STEPS = TILE / SIDE;
shared float query_tile[TILE * PITCH];
shared float key_tile[TILE * PITCH];

void main() {
    const uint query_tiles = (p.query_len + TILE - 1) / TILE;
    const uint key_tiles = (p.key_len + TILE - 1) / TILE;
    const uint workgroup = linear_workgroup();
    const uint first_key = workgroup % key_tiles * TILE;
    const uint first_query = workgroup / key_tiles % query_tiles * TILE;
    const uint batch_head = workgroup / key_tiles / query_tiles;
    const uint batch = batch_head / p.heads;
    const uint head = batch_head % p.heads;
    if (batch >= p.batch) return;  // the whole workgroup leaves
    const uint kv_head = head / (p.heads / p.kv_heads);

    const uint row = gl_LocalInvocationIndex / SIDE;
    const uint column = gl_LocalInvocationIndex % SIDE;
    float sums[STEPS * STEPS];
    [[unroll]] for (uint s = 0; s < STEPS * STEPS; ++s) sums[s] = 0.0;

    for (uint depth = 0; depth < p.head_dim; depth += TILE) {
        barrier();  // the tiles may still be read
        for (uint e = gl_LocalInvocationIndex; e < TILE * TILE; e += gl_WorkGroupSize.x) {
            const uint line = e / TILE;
            const uint d = e % TILE;
            if (depth + d >= p.head_dim) continue;  // is not read below
            // Lines past the end repeat the last one; their scores are not stored.
            const uint i = min(first_query + line, p.query_len - 1);
            const uint j = min(first_key + line, p.key_len - 1);
            const uint query_row = (batch * p.query_len + i) * p.heads + head;
            const uint key_row = (batch * p.key_len + j) * p.kv_heads + kv_head;
            query_tile[line * PITCH + d] = LOAD(query, query_row * p.head_dim + depth + d);
            key_tile[line * PITCH + d] = LOAD(key, key_row * p.head_dim + depth + d);
        }
        barrier();

        const uint count = min(TILE, p.head_dim - depth);
        for (uint d = 0; d < count; ++d) {
            float keys[STEPS];
            [[unroll]] for (uint c = 0; c < STEPS; ++c) keys[c] = key_tile[(column + c * SIDE) * PITCH + d];
            [[unroll]] for (uint r = 0; r < STEPS; ++r) {
                const float q = query_tile[(row + r * SIDE) * PITCH + d];
                [[unroll]] for (uint c = 0; c < STEPS; ++c) sums[r * STEPS + c] += q * keys[c];
            }
        }
    }

    [[unroll]] for (uint r = 0; r < STEPS; ++r) {
        const uint i = first_query + row + r * SIDE;
        if (i >= p.query_len) continue;
        const uint base = ((batch * p.heads + head) * p.query_len + i) * p.key_len;
        [[unroll]] for (uint c = 0; c < STEPS; ++c) {
            const uint j = first_key + column + c * SIDE;
            const float score = p.scale * sums[r * STEPS + c];
            if (j < p.key_len) scores[base + j] = HAS_SOFT_CAP == 1 ? soft_capped(score, p.soft_cap) : score;
        }
    }
}
