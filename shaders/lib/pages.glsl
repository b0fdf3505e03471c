// SPDX-License-Identifier: MIT
// Where a cache has the positions of a sequence, as rows: position j of sequence b in row b · capacity + j or, with IN_PAGES, in row
// pages[b, j / kPageLen] · kPageLen + j % kPageLen, capacity a multiple of kPageLen. The table may hold anything: no row is outside the
// cache, which has `rows` of them.
// The shader declares before: IN_PAGES, a constant, without which the table is not read, and pages, a buffer of uint.
#ifndef VKFORMER_PAGES_GLSL
#define VKFORMER_PAGES_GLSL
#include "lib/pages.h"

const uint NO_ROW = 0xFFFFFFFFu;

uint page_of(uint sequence, uint capacity, uint position) {
    return pages[sequence * (capacity / kPageLen) + position / kPageLen];
}

// For who reads: what is added, modulo 2^32, to a position of a sequence to get its row, and to all that are in the same page.
// position < capacity. A page that there is not is the last one.
uint row_offset(uint sequence, uint capacity, uint position, uint rows) {
    if (!IN_PAGES) return sequence * capacity;
    return (min(page_of(sequence, capacity, position), rows / kPageLen - 1) - position / kPageLen) * kPageLen;
}

// For who writes: NO_ROW outside the cache, or in a page that there is not.
uint row_to_write(uint sequence, uint capacity, uint position, uint rows) {
    if (position >= capacity) return NO_ROW;
    if (!IN_PAGES) return sequence * capacity + position;
    const uint page = page_of(sequence, capacity, position);
    return page < rows / kPageLen ? page * kPageLen + position % kPageLen : NO_ROW;
}
#endif
