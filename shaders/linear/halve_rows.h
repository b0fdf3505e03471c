// SPDX-License-Identifier: MIT
// Shared by the algorithms of halve_rows: float32 rows as halves that cooperative matrices multiply.
#ifndef VKFORMER_SHADERS_HALVE_ROWS_H
#define VKFORMER_SHADERS_HALVE_ROWS_H
#include "lib/types.h"
SHARED_BEGIN
const uint kHalveRowsX = 0, kHalveRowsHalves = 1, kHalveRowsScales = 2;
const uint kHalveRowsWorkgroup = 128;
struct HalveRowsPush {
    uint rows, width;  // width: a multiple of 4
};
SHARED_END
#endif
