// SPDX-License-Identifier: MIT
// Shared by the algorithms of expert_linear: row.comp and quantized_row.comp (few rows), group.comp, which sorts the rows by expert, and behind
// it linear/tile_vec4.comp with EXPERTS. Their bindings and constants are those of linear (linear/contract.h) but for what is here.
#ifndef VKFORMER_SHADERS_EXPERT_LINEAR_H
#define VKFORMER_SHADERS_EXPERT_LINEAR_H
#include "linear/contract.h"
SHARED_BEGIN
const uint kExpertLinearExperts = 2;  // int32 [rows, k]
// The row tiles, kExpertLinearTileWords each: places first … end − 1, of which the tile has the first, and their expert, from the first of weight
// on. Behind them by place, in the order of the experts, pairs of a row and one of its experts: row · k + slot.
const uint kExpertLinearGroups = 3;
const uint kExpertLinearTileWords = 3;
const uint kExpertLinearGroupWorkgroup = 256;
const uint kExpertLinearMaxExperts = 1024;

// Specialization constant of group.comp:
const uint kExpertLinearTileRows = 1;  // places of a tile

struct ExpertLinearPush {
    uint pairs;      // rows of y: rows of `experts` times k
    uint in_width;   // elements per row of x and of weight
    uint out_width;  // rows of weight of an expert, elements per row of y
    uint sharing;    // pairs that have one row of x: k, or 1
    uint experts;    // that may be chosen
    uint first;      // of them, the one that weight begins with
    uint count;      // of them, those in weight
    uint tiles;      // in kExpertLinearGroups
};
SHARED_END
#endif
