// SPDX-License-Identifier: MIT
// Rows that a workgroup of one subgroup lays out anew before its first tile (cpu_devices/lib/tiles.glsl), for itself: in the order in which its lanes
// want them, as float32 and with the gains of their norm on them, so that the loop over the tiles has vector loads and nothing else to do.
// Memory: kScratch, ROWS · in_width floats for each workgroup.
#ifndef VKFORMER_STAGED_GLSL
#define VKFORMER_STAGED_GLSL
#include "cpu_devices/lib/vectors.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Staged { float v; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer FourStaged { vec4 v; };

uint64_t staged_at(uint row, uint i) {
    return staged_address + uint64_t((linear_workgroup() * ROWS + row) * p.in_width + i) * 4;
}

// The lane's element of the vector that begins at element `i` of what is staged of the row.
void store_staged(uint row, uint i, float value) { Staged(staged_at(row, i + gl_SubgroupInvocationID)).v = value; }
float load_staged(uint row, uint i) {
    const uint64_t at = staged_at(row, i);
    return own_of(FourStaged(at).v, FourStaged(at + 16).v);
}
#endif
