// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_EMBEDDING_H
#define VKFORMER_SHADERS_EMBEDDING_H
#include "types.h"
SHARED_BEGIN
const uint kEmbeddingTokens = 0, kEmbeddingTable = 1, kEmbeddingY = 2;
struct EmbeddingPush {
    uint rows;   // tokens
    uint vocab;  // rows of the table
    uint width;  // elements per row
    float scale;
};
SHARED_END
#endif
