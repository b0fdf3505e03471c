// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_COUNT_TOKENS_H
#define VKFORMER_SHADERS_COUNT_TOKENS_H
#include "lib/types.h"
SHARED_BEGIN
const uint kCountTokensTokens = 0, kCountTokensLengths = 1, kCountTokensCounts = 2;
const uint kCountTokensHasLengths = 1;  // specialization constant: 1 where the operand is present
const uint kCountTokensAdds = 2;        // specialization constant: 1: generated tokens, 0: those of the prompt
const uint kInPrompt = 1u << 30;        // bit of an element of counts; those below it are how often the token was generated
struct CountTokensPush {
    uint rows;
    uint len;    // tokens per row
    uint vocab;  // elements per row of counts
};
SHARED_END
#endif
