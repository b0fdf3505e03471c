// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_RELATIVE_BIAS_H
#define VKFORMER_SHADERS_RELATIVE_BIAS_H
#include "lib/types.h"
SHARED_BEGIN
const uint kRelativeBiasTable = 0, kRelativeBiasStarts = 1, kRelativeBiasY = 2;
const uint kRelativeBiasHasStarts = 1;  // specialization constant; 0: the first query stands at position 0
struct RelativeBiasPush {
    uint rows;       // batch · heads · query_len
    uint heads;      // rows of the table
    uint query_len;  // rows per head
    uint key_len;    // elements per row
    uint reach;      // the table has distances −reach … reach
};
SHARED_END
#endif
