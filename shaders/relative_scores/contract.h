// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_RELATIVE_SCORES_H
#define VKFORMER_SHADERS_RELATIVE_SCORES_H
#include "lib/types.h"
SHARED_BEGIN
const uint kRelativeScoresC2p = 0, kRelativeScoresP2c = 1, kRelativeScoresIndex = 2, kRelativeScoresY = 3;
const uint kRelativeScoresHasC2p = 1, kRelativeScoresHasP2c = 2;  // specialization constants
const uint kRelativeScoresTile = 32;                              // queries and keys of a workgroup
const uint kRelativeScoresLines = 4;                              // rows of the tile at a time
struct RelativeScoresPush {
    uint batch;
    uint heads;
    uint len;    // queries, and keys
    uint rows;   // of the distances' table: elements per row of c2p and p2c
    uint reach;  // the index has distances −reach … reach
};
SHARED_END
#endif
