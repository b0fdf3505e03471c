// SPDX-License-Identifier: MIT
// The depth in slices of four quads, a quad being four neighbours of a row of x or weight, of which the next slice is on its way from memory
// while one is multiplied. It is loaded without a branch, behind which a compiler would wait for it, and waits in registers as it is stored.
// Included behind linear/epilogue.glsl.
#ifndef VKFORMER_LINEAR_SLICES_GLSL
#define VKFORMER_LINEAR_SLICES_GLSL

const uint QUADS = kLinearTileDepth / 4;
#ifdef QUANTIZED
const bool IS_WHOLE = true;
#else
layout(constant_id = kLinearWholeSlices) const uint WHOLE_SLICES = 0;
const bool IS_WHOLE = WHOLE_SLICES != 0;
#endif

uint slices_of_depth() { return (p.in_width / 4 + QUADS - 1) / QUADS; }

// The quad of the depth that is number `quad` of a slice; past the end one that is there.
uint quad_of_depth(uint slice, uint quad) {
    if (IS_WHOLE) return min(slice, p.in_width / (4 * QUADS) - 1) * QUADS + quad;
    return min(slice * QUADS + quad, p.in_width / 4 - 1);
}

// Whether that quad is there. Where it is not, zeros take its place in shared memory.
bool is_in_depth(uint slice, uint quad) { return IS_WHOLE || slice * QUADS + quad < p.in_width / 4; }
#endif
