// SPDX-License-Identifier: MIT
// The order in which arg_max, top_k and beam_step choose floats: NaN above everything, then from large to small, the lower
// index first on ties (+0 and −0 are one value). It is computed on the bits, so that no driver's treatment of NaN, of signed
// zeros or of subnormal numbers changes a choice.
#ifndef VKFORMER_ORDER_GLSL
#define VKFORMER_ORDER_GLSL

// A float's place in the order; larger is better.
struct Candidate {
    uint key;
    uint index;
};

// Comes before and after every candidate, in this order.
const Candidate kBeforeAll = Candidate(0xFFFFFFFFu, 0u);
const Candidate kAfterAll = Candidate(0u, 0xFFFFFFFFu);

const uint kNanKey = 0xFFFFFFFEu;

// Grows with the float of these bits; no key is that of kBeforeAll or kAfterAll.
uint order_key(uint bits) {
    const uint magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return kNanKey;
    if (magnitude == 0) return 0x80000000u;
    return (bits >> 31) == 0 ? bits | 0x80000000u : ~bits;
}

// What is chosen of a row whose first element this is: nothing, −1, of one with a NaN.
uint choice_of(Candidate first) { return first.key == kNanKey ? 0xFFFFFFFFu : first.index; }

bool comes_before(Candidate a, Candidate b) { return a.key > b.key || (a.key == b.key && a.index < b.index); }

#endif
