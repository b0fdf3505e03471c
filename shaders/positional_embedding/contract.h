// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_POSITIONAL_EMBEDDING_H
#define VKFORMER_SHADERS_POSITIONAL_EMBEDDING_H
#include "lib/types.h"
SHARED_BEGIN
const uint kPositionalEmbeddingX = 0, kPositionalEmbeddingTable = 1, kPositionalEmbeddingStarts = 2,
           kPositionalEmbeddingY = 3;
const uint kPositionalEmbeddingHasStarts = 1;  // specialization constant; 0: every sequence starts at position 0
struct PositionalEmbeddingPush {
    uint rows;       // batch · len
    uint len;        // rows per sequence
    uint positions;  // rows of the table
    uint width;      // elements per row
};
SHARED_END
#endif
