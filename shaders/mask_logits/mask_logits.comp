#version 460
// SPDX-License-Identifier: MIT
// y[row, i] = −∞ where i is banned, else x[row, i]; where a token is forced: 0 for it, −∞ for all others. Forcing the last token
// overrides forcing the first, which overrides banning. x, y: f32 [rows, width]; starts: i32 [rows]; banned: i32 [banned_count].
// Banned in a row are also the tokens of `late`, i32 [late_count], in the first late_steps steps, of which a row's first is that with
// starts[row] + 1 = begins[row], i32 [rows]; and what would make a run of `ngram` tokens come twice: every token that follows a
// place of sequences[row, 0 … starts[row]], i32 [rows, capacity], where its last ngram − 1 tokens stand (Hugging Face's
// NoRepeatNGramLogitsProcessor); and likewise a run of source_ngram tokens that source[row / rows_per_source], i32 [sources,
// source_len], has (EncoderNoRepeatNGramLogitsProcessor).
// One workgroup per 4096 consecutive elements of a row; an invocation owns those that are ≡ its index modulo the workgroup's
// size. The banned ones among them are marked in a bit each first, so that a long list is read once per workgroup; to find
// repeats an invocation owns the places of the sequence that are ≡ its index.
// Shared memory: 4096 bits = 512 bytes.
#extension GL_GOOGLE_include_directive : require
#include "mask_logits/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID MaskLogitsPush p; };
layout(std430, binding = kMaskLogitsX) readonly buffer X { float x[]; };
layout(std430, binding = kMaskLogitsStarts) readonly buffer Starts { int starts[]; };
layout(std430, binding = kMaskLogitsBanned) readonly buffer Banned { uint banned[]; };
layout(std430, binding = kMaskLogitsLate) readonly buffer Late { uint late[]; };
layout(std430, binding = kMaskLogitsBegins) readonly buffer Begins { int begins[]; };
layout(std430, binding = kMaskLogitsSequences) readonly buffer Sequences { int sequences[]; };
layout(std430, binding = kMaskLogitsSource) readonly buffer Source { int source[]; };
layout(std430, binding = kMaskLogitsY) writeonly buffer Y { float y[]; };
#include "lib/numbers.glsl"

shared uint banned_bits[kMaskLogitsChunk / 32];

// Bans the token, if it lies in the chunk that begins at `first`: offset is huge for one before it.
void ban(uint token, uint first) {
    const uint offset = token - first;
    if (offset < kMaskLogitsChunk) atomicOr(banned_bits[offset / 32], 1u << (offset % 32));
}

// Tokens of the row so far.
uint length_of(uint row) { return uint(clamp(starts[row], -1, int(p.capacity) - 1) + 1); }

void ban_repeats(uint row, uint first) {
    const uint len = length_of(row);
    const uint base = row * p.capacity;
    const uint context = p.ngram - 1;  // tokens that a repeat has before the one to ban
    if (len < p.ngram) return;
    for (uint i = gl_LocalInvocationIndex; i <= len - p.ngram; i += gl_WorkGroupSize.x) {
        uint same = 0;
        while (same < context && sequences[base + i + same] == sequences[base + len - context + same]) ++same;
        if (same == context) ban(uint(sequences[base + i + context]), first);
    }
}

void ban_source(uint row, uint first) {
    const uint len = length_of(row);
    const uint context = p.source_ngram - 1;
    const uint base = row / p.rows_per_source * p.source_len, end = row * p.capacity + len - context;
    if (len < context || p.source_len < p.source_ngram) return;
    for (uint i = gl_LocalInvocationIndex; i <= p.source_len - p.source_ngram; i += gl_WorkGroupSize.x) {
        uint same = 0;
        while (same < context && source[base + i + same] == sequences[end + same]) ++same;
        if (same == context) ban(uint(source[base + i + context]), first);
    }
}

void main() {
    const uint chunks = (p.width + kMaskLogitsChunk - 1) / kMaskLogitsChunk;
    const uint row = linear_workgroup() / chunks;
    if (row >= p.rows) return;  // the whole workgroup leaves
    const uint first = linear_workgroup() % chunks * kMaskLogitsChunk;
    const uint count = min(kMaskLogitsChunk, p.width - first);

    for (uint i = gl_LocalInvocationIndex; i < kMaskLogitsChunk / 32; i += gl_WorkGroupSize.x) banned_bits[i] = 0;
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < p.banned_count; i += gl_WorkGroupSize.x) ban(banned[i], first);
    const int begin = p.has_begins == 1 ? begins[row] : 1;
    if (starts[row] < begin - 1 + p.late_steps)
        for (uint i = gl_LocalInvocationIndex; i < p.late_count; i += gl_WorkGroupSize.x) ban(late[i], first);
    if (p.ngram > 0) ban_repeats(row, first);
    if (p.source_ngram > 0) ban_source(row, first);
    barrier();

    int forced = -1;
    if (starts[row] == 0) forced = p.forced_first;
    if (starts[row] == p.last_start && p.forced_last >= 0) forced = p.forced_last;
    for (uint i = gl_LocalInvocationIndex; i < count; i += gl_WorkGroupSize.x) {
        const uint element = row * p.width + first + i;
        if (forced >= 0)
            y[element] = first + i == uint(forced) ? 0.0 : MINUS_INFINITY;
        else
            y[element] = (banned_bits[i / 32] >> (i % 32) & 1u) == 1 ? MINUS_INFINITY : x[element];
    }
}
