// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_ADDITIVE_SCORES_H
#define VKFORMER_SHADERS_ADDITIVE_SCORES_H
#include "lib/types.h"
SHARED_BEGIN
const uint kAdditiveScoresQuery = 0, kAdditiveScoresKey = 1, kAdditiveScoresWeight = 2, kAdditiveScoresScores = 3;
const uint kAdditiveScoresDepth = 32;  // elements of dim in a tile
// Specialization constants; the workgroup is their product, at most 64:
const uint kAdditiveScoresTileQueries = 1, kAdditiveScoresTileKeys = 2;
struct AdditiveScoresPush {
    uint batch;
    uint query_len;
    uint key_len;
    uint heads;
    uint dim;
};
SHARED_END
#endif
