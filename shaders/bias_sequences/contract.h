// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_BIAS_SEQUENCES_H
#define VKFORMER_SHADERS_BIAS_SEQUENCES_H
#include "lib/types.h"
SHARED_BEGIN
const uint kBiasSequencesX = 0, kBiasSequencesStarts = 1, kBiasSequencesSequences = 2, kBiasSequencesPhrases = 3,
           kBiasSequencesTokens = 4, kBiasSequencesBiases = 5, kBiasSequencesY = 6;
const uint kBiasSequencesChunk = 4096;  // elements of a row that one workgroup handles
const uint kPhraseLast = 0, kPhraseBegin = 1, kPhraseLen = 2, kPhraseWords = 3;  // elements of a row of phrases
struct BiasSequencesPush {
    uint rows;
    uint width;     // elements per row
    uint phrases;   // rows of phrases, in rising order of their last tokens
    uint capacity;  // tokens per row of the sequences; 0: no phrase has tokens before its last, the binding is not touched
};
SHARED_END
#endif
