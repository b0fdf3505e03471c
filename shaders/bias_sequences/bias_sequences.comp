#version 460
// SPDX-License-Identifier: MIT
// y[row, t] = x[row, t] + Σ_k bias[k] over the phrases k that t would complete: those that end with t, and whose len ≥ 0 tokens before
// are the last ones of sequences[row, 0 … starts[row]], where that has more than len tokens (or len is 0). x, y: f32 [rows, width];
// starts: i32 [rows]; sequences: i32 [rows, capacity]; phrases: i32 [phrases, 3], the last token, where those before it begin in
// `tokens`, and len; biases: f32 [phrases]. Hugging Face's SequenceBiasLogitsProcessor, and with −∞ its NoBadWordsLogitsProcessor.
// One workgroup per 4096 consecutive elements of a row; an invocation owns those that are ≡ its index modulo the workgroup's size,
// and adds up the phrases that end with one of them, in their order. These stand side by side, for phrases are sorted.
#extension GL_GOOGLE_include_directive : require
#include "bias_sequences/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID BiasSequencesPush p; };
layout(std430, binding = kBiasSequencesX) readonly buffer X { float x[]; };
layout(std430, binding = kBiasSequencesStarts) readonly buffer Starts { int starts[]; };
layout(std430, binding = kBiasSequencesSequences) readonly buffer Sequences { int sequences[]; };
layout(std430, binding = kBiasSequencesPhrases) readonly buffer Phrases { uint phrases[]; };
layout(std430, binding = kBiasSequencesTokens) readonly buffer Tokens { int tokens[]; };
layout(std430, binding = kBiasSequencesBiases) readonly buffer Biases { float biases[]; };
layout(std430, binding = kBiasSequencesY) writeonly buffer Y { float y[]; };

uint last_of(uint phrase) { return phrases[phrase * kPhraseWords + kPhraseLast]; }

// The first phrase whose last token is not below `token`.
uint first_phrase(uint token) {
    uint low = 0, high = p.phrases;
    while (low < high) {
        const uint middle = (low + high) / 2;
        if (last_of(middle) < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Whether the row's sequence ends with what comes before the phrase's last token.
bool is_next(uint phrase, uint row) {
    const uint before = phrases[phrase * kPhraseWords + kPhraseLen];
    if (before == 0) return true;
    const uint len = uint(clamp(starts[row], -1, int(p.capacity) - 1) + 1);
    if (len <= before) return false;
    const uint begin = phrases[phrase * kPhraseWords + kPhraseBegin];
    const uint end = row * p.capacity + len - before;
    uint same = 0;
    while (same < before && tokens[begin + same] == sequences[end + same]) ++same;
    return same == before;
}

void main() {
    const uint chunks = (p.width + kBiasSequencesChunk - 1) / kBiasSequencesChunk;
    const uint row = linear_workgroup() / chunks;
    if (row >= p.rows) return;
    const uint first = linear_workgroup() % chunks * kBiasSequencesChunk;
    const uint end = min(first + kBiasSequencesChunk, p.width);
    const uint lane = gl_LocalInvocationIndex;

    for (uint i = first + lane; i < end; i += gl_WorkGroupSize.x) y[row * p.width + i] = x[row * p.width + i];

    float sum = 0.0;
    for (uint k = first_phrase(first); k < p.phrases; ++k) {
        const uint token = last_of(k);
        if (token >= end) break;
        if ((token - first) % gl_WorkGroupSize.x != lane) continue;
        if (is_next(k, row)) sum += biases[k];
        if (k + 1 < p.phrases && last_of(k + 1) == token) continue;
        y[row * p.width + token] = x[row * p.width + token] + sum;
        sum = 0.0;
    }
}
