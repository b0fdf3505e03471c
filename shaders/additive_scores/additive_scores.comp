#version 460
// SPDX-License-Identifier: MIT
// scores[b, h, i, j] = Σ_d weight[h, d] · tanh(query[b, i, h, d] + key[b, j, h, d])
// query: [batch, query_len, heads, dim], key: [batch, key_len, heads, dim], weight: [heads, dim], storage as lib/storage.glsl
// says; scores: [batch, heads, query_len, key_len] float32. Bahdanau et al. 2015, appendix A.1.2, with W_a s and U_a h given.
// A workgroup owns a tile of TILE_QUERIES × TILE_KEYS of one head, an invocation one score of it; neighbours own neighbouring
// keys. Queries and keys pass through shared memory DEPTH elements at a time, so that rows are read in order; the tanh, an
// exp() and a division, is what it costs, and larger tiles per invocation would save none of them.
#extension GL_GOOGLE_include_directive : require
#include "additive_scores/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kAdditiveScoresTileQueries) const uint TILE_QUERIES = 8;
layout(constant_id = kAdditiveScoresTileKeys) const uint TILE_KEYS = 8;
layout(push_constant) uniform Push { PART_OF_GRID AdditiveScoresPush p; };
layout(std430, binding = kAdditiveScoresQuery) readonly buffer Query { ELEMENT query[]; };
layout(std430, binding = kAdditiveScoresKey) readonly buffer Key { ELEMENT key[]; };
layout(std430, binding = kAdditiveScoresWeight) readonly buffer Weight { ELEMENT weight[]; };
layout(std430, binding = kAdditiveScoresScores) writeonly buffer Scores { float scores[]; };
#include "lib/activation.glsl"

// At most (1 + 64) · 33 · 4 bytes = 8.4 KiB, for a tile of 1 × 64.
const uint DEPTH = kAdditiveScoresDepth;
const uint PITCH = DEPTH + 1;  // not 32: the keys that are read at a time then lie in different banks
shared float query_tile[TILE_QUERIES * PITCH];
shared float key_tile[TILE_KEYS * PITCH];

void main() {
    const uint query_tiles = (p.query_len + TILE_QUERIES - 1) / TILE_QUERIES;
    const uint key_tiles = (p.key_len + TILE_KEYS - 1) / TILE_KEYS;
    const uint workgroup = linear_workgroup();
    const uint first_key = workgroup % key_tiles * TILE_KEYS;
    const uint first_query = workgroup / key_tiles % query_tiles * TILE_QUERIES;
    const uint batch_head = workgroup / key_tiles / query_tiles;
    const uint batch = batch_head / p.heads;
    const uint head = batch_head % p.heads;
    if (batch >= p.batch) return;  // the whole workgroup leaves

    const uint row = gl_LocalInvocationIndex / TILE_KEYS;
    const uint column = gl_LocalInvocationIndex % TILE_KEYS;
    float sum = 0.0;
    for (uint depth = 0; depth < p.dim; depth += DEPTH) {
        const uint count = min(DEPTH, p.dim - depth);
        barrier();  // the tiles may still be read
        for (uint e = gl_LocalInvocationIndex; e < (TILE_QUERIES + TILE_KEYS) * DEPTH; e += gl_WorkGroupSize.x) {
            const uint line = e / DEPTH;
            const uint d = e % DEPTH;
            if (d >= count) continue;  // is not read below
            // Lines past the end repeat the last one; their scores are not stored.
            if (line < TILE_QUERIES) {
                const uint i = min(first_query + line, p.query_len - 1);
                query_tile[line * PITCH + d] = LOAD(query, ((batch * p.query_len + i) * p.heads + head) * p.dim + depth + d);
            } else {
                const uint j = min(first_key + line - TILE_QUERIES, p.key_len - 1);
                key_tile[(line - TILE_QUERIES) * PITCH + d] =
                    LOAD(key, ((batch * p.key_len + j) * p.heads + head) * p.dim + depth + d);
            }
        }
        barrier();
        for (uint d = 0; d < count; ++d)
            sum += LOAD(weight, head * p.dim + depth + d) *
                   hyperbolic_tangent(query_tile[row * PITCH + d] + key_tile[column * PITCH + d]);
    }

    const uint i = first_query + row;
    const uint j = first_key + column;
    if (i < p.query_len && j < p.key_len)
        scores[((batch * p.heads + head) * p.query_len + i) * p.key_len + j] = sum;
}
