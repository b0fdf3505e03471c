#version 460
// SPDX-License-Identifier: MIT
// y[b, h, i, j] = c2p[h, b · len + i, r] + p2c[h, b · len + j, r],  r = index[clamp(i - j, -reach, reach) + reach]
// c2p, p2c: f32 [heads, batch · len, rows], either may be absent; index: i32 [2 · reach + 1]; y: f32 [batch, heads, len, len].
// He et al. 2021 (DeBERTa), section 3.1, with the buckets of distances spelled out in the index.
// A workgroup of LINES × TILE invocations owns a tile of TILE queries × TILE keys of one head; of TILE of them each owns a query
// while p2c is read, a key while c2p is and y is written.
// Along a diagonal i - j, and so r, is the same. Neighbours in i thus read neighbours in a row of p2c, and neighbours in j in one of
// c2p; results are stored along j, so what p2c gives is turned in shared memory.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "relative_scores/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kRelativeScoresHasC2p) const uint HAS_C2P = 1;
layout(constant_id = kRelativeScoresHasP2c) const uint HAS_P2C = 1;
layout(push_constant) uniform Push { PART_OF_GRID RelativeScoresPush p; };
layout(std430, binding = kRelativeScoresC2p) readonly buffer C2p { float c2p[]; };
layout(std430, binding = kRelativeScoresP2c) readonly buffer P2c { float p2c[]; };
layout(std430, binding = kRelativeScoresIndex) readonly buffer Index { int index[]; };
layout(std430, binding = kRelativeScoresY) writeonly buffer Y { float y[]; };

const uint TILE = kRelativeScoresTile;
const uint LINES = kRelativeScoresLines;
const uint STEPS = TILE / LINES;
const uint PITCH = TILE + 1;  // not 32: a column then lies in 32 banks
shared uint rows[2 * TILE - 1];  // by query - key + TILE - 1, both counted within the tile
shared float turned[TILE * PITCH];  // [key, query]; 4.1 KiB

void main() {
    const uint tiles = (p.len + TILE - 1) / TILE;
    const uint workgroup = linear_workgroup();
    const uint first_key = workgroup % tiles * TILE;
    const uint first_query = workgroup / tiles % tiles * TILE;
    const uint batch_head = workgroup / tiles / tiles;
    const uint batch = batch_head / p.heads;
    const uint head = batch_head % p.heads;
    if (batch >= p.batch) return;  // the whole workgroup leaves

    const uint lane = gl_LocalInvocationIndex % TILE;
    const uint first_line = gl_LocalInvocationIndex / TILE;
    const uint last_query = p.len - 1 - first_query;  // of the tile, where it is not whole
    const uint last_key = p.len - 1 - first_key;

    if (gl_LocalInvocationIndex < 2 * TILE - 1) {
        const int reach = int(p.reach);
        const int distance = int(first_query + gl_LocalInvocationIndex) - int(first_key + TILE - 1);
        rows[gl_LocalInvocationIndex] = uint(clamp(index[clamp(distance, -reach, reach) + reach], 0, int(p.rows) - 1));
    }
    barrier();
    // All that is read comes before all that waits for it; lines behind the last one read it again.
    const uint text = (head * p.batch + batch) * p.len;  // its first row in c2p and p2c
    float by_key[STEPS];
    float by_query[STEPS];
    [[unroll]] for (uint step = 0; step < STEPS; ++step) {
        const uint line = first_line + step * LINES;
        if (HAS_P2C == 1)
            by_key[step] = p2c[(text + first_key + min(line, last_key)) * p.rows + rows[lane + TILE - 1 - line]];
        if (HAS_C2P == 1)
            by_query[step] = c2p[(text + first_query + min(line, last_query)) * p.rows + rows[line + TILE - 1 - lane]];
    }
    if (HAS_P2C == 1) {
        [[unroll]] for (uint step = 0; step < STEPS; ++step) turned[(first_line + step * LINES) * PITCH + lane] = by_key[step];
        barrier();
    }
    [[unroll]] for (uint step = 0; step < STEPS; ++step) {
        const uint i = first_line + step * LINES;
        float score = HAS_C2P == 1 ? by_query[step] : 0.0;
        if (HAS_P2C == 1) score += turned[lane * PITCH + i];
        if (i <= last_query && lane <= last_key) y[(batch_head * p.len + first_query + i) * p.len + first_key + lane] = score;
    }
}
