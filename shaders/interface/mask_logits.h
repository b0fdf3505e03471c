// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_MASK_LOGITS_H
#define VKFORMER_SHADERS_MASK_LOGITS_H
#include "types.h"
SHARED_BEGIN
const uint kMaskLogitsX = 0, kMaskLogitsStarts = 1, kMaskLogitsBanned = 2, kMaskLogitsSequences = 3,
           kMaskLogitsY = 4;
const uint kMaskLogitsChunk = 4096;  // elements of a row that one workgroup handles
struct MaskLogitsPush {
    uint rows;
    uint width;         // elements per row
    uint banned_count;  // 0: none, the binding is not touched
    int forced_first;   // the only token allowed where starts[row] == 0; −1: any
    int forced_last;    // the only token allowed where starts[row] == last_start; −1: any
    int last_start;
    int late;       // not allowed where starts[row] < late_start; −1: there is none
    int late_start;
    uint ngram;     // no run of so many tokens comes twice; 0: any may, the binding of the sequences is not touched
    uint capacity;  // tokens per row of the sequences
};
SHARED_END
#endif
