// SPDX-License-Identifier: MIT
// Rows as quads of four elements, for widths that are multiples of 4. A workgroup walks along a row; the first KEPT turns are kept in
// registers, so that a row which fits is read once. KEPT · gl_WorkGroupSize.x ≤ quads of a row, so a kept turn needs no test.
// The shader declares before: the specialization constant KEPT.
#ifndef VKFORMER_QUADS_GLSL
#define VKFORMER_QUADS_GLSL

const uint KEPT_SIZE = KEPT + (KEPT == 0 ? 1 : 0);  // of an array: it has an element

// The quad of this invocation in a kept turn, and its first one that is not kept.
uint kept_quad(uint turn) { return turn * gl_WorkGroupSize.x + gl_LocalInvocationIndex; }
uint first_unkept_quad() { return KEPT * gl_WorkGroupSize.x + gl_LocalInvocationIndex; }

float sum_of(vec4 v) { return (v.x + v.y) + (v.z + v.w); }

#endif
