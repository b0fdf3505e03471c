#version 460
// SPDX-License-Identifier: MIT
// Sorts pairs of a row and one of its experts by expert, and cuts each expert's into tiles of at most TILE_ROWS: what a product of many rows goes by.
// experts: int32 [pairs]. groups: kExpertLinearGroups. An expert that there is not comes last, as number p.count, where weight begins with expert
// 0; pairs of other weights' experts are left out. Which of an expert's pairs comes first is no matter: each is a row of its own.
// p.tiles ≥ the sum over experts of ⌈pairs / TILE_ROWS⌉; tiles that are left have no places.
// One workgroup: its invocations count the experts of their pairs, the first one adds up where each expert begins (few numbers), they write
// their experts' tiles and put their pairs where the next place is.
// Shared memory: 3 · 1025 · 4 = 12300 bytes.
#extension GL_GOOGLE_include_directive : require
#include "expert_linear/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kExpertLinearTileRows) const uint TILE_ROWS = 64;
layout(push_constant) uniform Push { PART_OF_GRID ExpertLinearPush p; };
layout(std430, binding = kExpertLinearExperts) readonly buffer Experts { uint experts[]; };
layout(std430, binding = kExpertLinearGroups) writeonly buffer Groups { uint groups[]; };

const uint GROUPS = kExpertLinearMaxExperts + 1;
const uint NO_GROUP = GROUPS;
shared uint counts[GROUPS];
shared uint next_place[GROUPS];
shared uint first_tile[GROUPS];
shared uint tile_count;

uint group_of(uint pair) {
    const uint expert = experts[pair];  // a negative one becomes larger than any
    if (expert >= p.experts) return p.first == 0 ? p.count : NO_GROUP;
    return expert - p.first < p.count ? expert - p.first : NO_GROUP;
}

void put_tile(uint tile, uint first, uint end, uint expert) {
    groups[tile * kExpertLinearTileWords] = first;
    groups[tile * kExpertLinearTileWords + 1] = end;
    groups[tile * kExpertLinearTileWords + 2] = expert;
}

void main() {
    const uint lane = gl_LocalInvocationIndex;
    for (uint g = lane; g <= p.count; g += gl_WorkGroupSize.x) counts[g] = 0;
    barrier();
    for (uint pair = lane; pair < p.pairs; pair += gl_WorkGroupSize.x) {
        const uint group = group_of(pair);
        if (group != NO_GROUP) atomicAdd(counts[group], 1);
    }
    barrier();
    if (lane == 0) {
        uint place = 0, tile = 0;
        for (uint g = 0; g <= p.count; ++g) {
            next_place[g] = place;
            first_tile[g] = tile;
            place += counts[g];
            tile += (counts[g] + TILE_ROWS - 1) / TILE_ROWS;
        }
        tile_count = tile;
    }
    barrier();
    for (uint g = lane; g <= p.count; g += gl_WorkGroupSize.x)
        for (uint i = 0; i < counts[g]; i += TILE_ROWS)
            put_tile(first_tile[g] + i / TILE_ROWS, next_place[g] + i, next_place[g] + counts[g], g);
    for (uint tile = tile_count + lane; tile < p.tiles; tile += gl_WorkGroupSize.x) put_tile(tile, 0, 0, 0);
    barrier();
    for (uint pair = lane; pair < p.pairs; pair += gl_WorkGroupSize.x) {
        const uint group = group_of(pair);
        if (group != NO_GROUP) groups[p.tiles * kExpertLinearTileWords + atomicAdd(next_place[group], 1)] = pair;
    }
}
