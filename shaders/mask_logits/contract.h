// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_MASK_LOGITS_H
#define VKFORMER_SHADERS_MASK_LOGITS_H
#include "lib/types.h"
SHARED_BEGIN
const uint kMaskLogitsX = 0, kMaskLogitsStarts = 1, kMaskLogitsBanned = 2, kMaskLogitsLate = 3, kMaskLogitsBegins = 4,
           kMaskLogitsSequences = 5, kMaskLogitsSource = 6, kMaskLogitsY = 7;
const uint kMaskLogitsChunk = 4096;  // elements of a row that one workgroup handles
struct MaskLogitsPush {
    uint rows;
    uint width;         // elements per row
    uint banned_count;  // 0: none, the binding is not touched
    int forced_first;   // the only token allowed where starts[row] == 0; −1: any
    int forced_last;    // the only token allowed where starts[row] == last_start; −1: any
    int last_start;
    uint late_count;  // likewise
    int late_steps;   // the late ones are not allowed where starts[row] + 1 − begins[row] < late_steps
    uint has_begins;  // 0: every row begins at 1, the binding is not touched
    uint ngram;       // no run of so many tokens comes twice; 0: any may
    uint capacity;    // tokens per row of the sequences; their binding is not touched where both runs are 0
    uint source_ngram;     // no run of so many tokens of the source comes; 0: any may, the binding is not touched
    uint source_len;       // tokens per row of the source
    uint rows_per_source;  // consecutive rows that have one row of it
};
SHARED_END
#endif
