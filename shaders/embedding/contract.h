// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_EMBEDDING_H
#define VKFORMER_SHADERS_EMBEDDING_H
#include "lib/weight_format.h"
SHARED_BEGIN
const uint kEmbeddingTokens = 0, kEmbeddingTable = 1, kEmbeddingY = 2;
const uint kEmbeddingWeight = 1;  // the table, as lib/dequantize.glsl calls it
const uint kEmbeddingFormat = 1;  // specialization constant of embedding_quantized: one of weight_format.h
struct EmbeddingPush {
    uint rows;   // tokens
    uint vocab;  // rows of the table
    uint width;  // elements per row
    float scale;
    // The rows of the table that are bound: others' tokens leave y as it is, but for the first piece, which has unknown tokens too.
    uint first, count;
};
SHARED_END
#endif
