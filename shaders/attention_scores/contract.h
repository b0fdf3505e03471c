// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_ATTENTION_SCORES_H
#define VKFORMER_SHADERS_ATTENTION_SCORES_H
#include "lib/types.h"
SHARED_BEGIN
const uint kAttentionScoresQuery = 0, kAttentionScoresKey = 1, kAttentionScoresScores = 2;
const uint kAttentionScoresWorkgroup = 64;  // fixed: 8 × 8 invocations with 4 × 4 scores each make the tile
const uint kAttentionScoresTile = 32;       // queries, keys and depth of a tile
const uint kAttentionScoresHasSoftCap = 1;     // specialization constant: 1 where scores are capped
struct AttentionScoresPush {
    uint batch;
    uint query_len;
    uint key_len;
    uint heads;
    uint kv_heads;
    uint head_dim;
    float scale;
    float soft_cap;
};
SHARED_END
#endif
