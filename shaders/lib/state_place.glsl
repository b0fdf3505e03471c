// SPDX-License-Identifier: MIT
// Which of the tokens of a run are a sequence's, and which rows of the state are its own (graph::StatePlace). Whatever the buffers hold, no
// row is outside the state, which has p.slots of them.
// The shader declares before: PLACE, a constant of kPlaceHas… bits; starts, counts and slots, buffers of int; p.slots and p.len.
#ifndef VKFORMER_STATE_PLACE_GLSL
#define VKFORMER_STATE_PLACE_GLSL
#include "lib/state_place.h"

const uint NO_SLOT = 0xFFFFFFFFu;

uint slot_at(uint sequence, uint i) {
    if ((PLACE & kPlaceHasSlots) == 0) return sequence;
    const uint slot = uint(slots[2 * sequence + i]);
    return slot < p.slots ? slot : NO_SLOT;
}

// Of p.len tokens.
uint count_of(uint sequence) {
    if ((PLACE & kPlaceHasCounts) == 0) return p.len;
    return uint(clamp(counts[sequence], 0, int(p.len)));
}

// The row that holds what came before, or NO_SLOT where the sequence begins.
uint slot_before(uint sequence) {
    const bool begins = (PLACE & kPlaceHasStarts) == 0 || starts[sequence] == 0;
    return begins ? NO_SLOT : slot_at(sequence, 0);
}

// The row that what comes then is written to.
uint slot_behind(uint sequence) { return slot_at(sequence, 1); }
#endif
