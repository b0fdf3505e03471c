#version 460
// SPDX-License-Identifier: MIT
// partial[b, h, split, :]: decode_attention/split.comp's formula, operands, mask and partial results, for head_dim and value_dim that are
// multiples of a piece: the WIDTH neighbours that are 16 bytes (of a cache in blocks: eight), loaded at a time.
// A workgroup owns one split of HEADS heads that share a key head, so that a key is read once for all of them, and walks over it in
// tiles of as many keys as it has invocations. In the products of queries and keys, SHARERS neighbours share a key, so that they read
// 64 bytes in a row, and each has a part of the scores of as many keys; an invocation then adds up the parts of its own key. In the
// sum of the values, COLUMNS neighbours own a piece each of every `groups`-th key. Keys that are not visible are not read: a cache
// may hold anything there.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "decode_attention/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"
#include "lib/storage4.glsl"
#include "lib/kv_cache.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kDecodeAttentionColumns) const uint COLUMNS = 1;  // of a piece
layout(constant_id = kDecodeAttentionColumnSteps) const uint COLUMN_STEPS = 1;
layout(constant_id = kDecodeAttentionMask) const uint MASK = 0;
layout(constant_id = kDecodeAttentionHeads) const uint HEADS = 1;  // 1 to 4
layout(constant_id = kDecodeAttentionHeadPieces) const uint HEAD_PIECES = 1;
layout(push_constant) uniform Push { PART_OF_GRID DecodeAttentionPush p; };
layout(std430, binding = kDecodeAttentionQuery) readonly buffer Query { ELEMENT4 query[]; };
layout(std430, binding = kDecodeAttentionAdditive) readonly buffer Additive { float additive[]; };
layout(std430, binding = kDecodeAttentionPages) readonly buffer Pages { uint pages[]; };
#include "decode_attention/words.glsl"
#include "lib/attention_mask.glsl"
#include "lib/soft_cap.glsl"
const bool IN_PAGES = (MASK & kKeysInPages) != 0;
#include "lib/pages.glsl"
#include "lib/split.glsl"

// Pieces wait in registers as they are stored. LOAD_PIECE(buffer, i, blocks) gives piece i, quad_of its elements 4q … 4q + 3.
#ifdef Q8_CACHE
#define KV_PIECE uint
struct Piece {
    uvec2 bytes;
    uint scales;  // the right one in the lower half
};
const uint WIDTH = 8;
const Piece NOTHING = Piece(uvec2(0), 0);
#define LOAD_PIECE(buffer, i, blocks) \
    Piece(uvec2(buffer[(i) * 2], buffer[(i) * 2 + 1]), buffer[(blocks) * 8 + (i) / 8] >> (16 * ((i) / 4 & 1u)))
vec4 quad_of(Piece x, uint q) { return unpackHalf2x16(x.scales).x * kv_bytes(x.bytes[q]); }
#elif defined(F16)
#define KV_PIECE uvec4
#define Piece uvec4
const uint WIDTH = 8;
const Piece NOTHING = uvec4(0);
#define LOAD_PIECE(buffer, i, blocks) buffer[i]
vec4 quad_of(Piece x, uint q) { return vec4(unpackHalf2x16(x[2 * q]), unpackHalf2x16(x[2 * q + 1])); }
#else
#define KV_PIECE vec4
#define Piece vec4
const uint WIDTH = 4;
const Piece NOTHING = vec4(0.0);
#define LOAD_PIECE(buffer, i, blocks) buffer[i]
vec4 quad_of(Piece x, uint q) { return x; }
#endif
layout(std430, binding = kDecodeAttentionKey) readonly buffer Key { KV_PIECE key[]; };
layout(std430, binding = kDecodeAttentionValue) readonly buffer Value { KV_PIECE value[]; };

const uint QUADS = WIDTH / 4;  // of a piece
const uint SHARERS = 4;
const uint HEAD_STEPS = (HEAD_PIECES + SHARERS - 1) / SHARERS;
// Loads that are on their way at the same time: of a group's keys, or of SHARERS keys' steps. With few registers not more than four beside
// the sums of four heads.
layout(constant_id = kDecodeAttentionRoom) const uint ROOM = kDecodeAttentionSomeRoom;
const uint IN_FLIGHT = HEADS * WIDTH > ROOM ? 4 : 8;
const uint STEPS_AT_A_TIME = HEAD_STEPS % 2 == 0 ? IN_FLIGHT / SHARERS : 1;
const uint VALUES = IN_FLIGHT;
const bool FETCHES_AHEAD = ROOM > kDecodeAttentionSomeRoom && !IN_PAGES;  // in pages the rows of a tile's keys are known too late
const uint PITCH = SHARERS + 1;  // odd: the parts of 32 keys then lie in 32 banks
const uint REDUCED = 8;          // that a reduction puts together in its first step
// 128 · 5 · 4 bytes for each head, its query, and 2 KiB: with four heads of 128 elements 14 KiB of shared memory.
shared float scratch[HEADS * gl_WorkGroupSize.x * PITCH];  // [head, key, part]; then [head, invocation, 4]
shared vec4 query_row[HEADS * HEAD_PIECES * QUADS];
shared vec4 weights[gl_WorkGroupSize.x];  // [key], a component for each head
shared uint kv_rows[IN_PAGES ? gl_WorkGroupSize.x : 1];  // of the keys of a tile

// The row of key `index` of a tile: in pages, or behind the tile's first.
uint kv_row(uint index) {
    if (IN_PAGES) return kv_rows[index];
    return index;
}

vec4 put_together(vec4 a, vec4 b, bool is_sum) {
    if (is_sum) return a + b;
    [[unroll]] for (uint h = 0; h < HEADS; ++h) a[h] = max_keeping_nan(a[h], b[h]);
    return a;
}

// The maximum, or the sum, of all invocations' values, a component for each head, in two steps: as few barriers as possible.
vec4 reduced(vec4 x, bool is_sum) {
    const uint lane = gl_LocalInvocationIndex;
    const uint chunks = gl_WorkGroupSize.x / REDUCED;
    barrier();  // scratch is read
    [[unroll]] for (uint h = 0; h < HEADS; ++h) scratch[h * gl_WorkGroupSize.x + lane] = x[h];
    barrier();
    if (lane < HEADS * chunks) {
        const uint h = lane / chunks, chunk = lane % chunks;
        float part = scratch[h * gl_WorkGroupSize.x + chunk];
        [[unroll]] for (uint i = 1; i < REDUCED; ++i) {
            const float other = scratch[h * gl_WorkGroupSize.x + chunk + i * chunks];
            part = is_sum ? part + other : max_keeping_nan(part, other);
        }
        weights[chunk][h] = part;
    }
    barrier();
    vec4 whole = weights[0];
    for (uint chunk = 1; chunk < chunks; ++chunk) whole = put_together(whole, weights[chunk], is_sum);
    return whole;
}

void main() {
    const uint shared_by = p.heads / p.kv_heads;
    const uint chunks = (shared_by + HEADS - 1) / HEADS;
    uint workgroup = linear_workgroup();
    const uint split_index = workgroup % p.splits;
    workgroup /= p.splits;
    const uint first_head = workgroup % chunks * HEADS;  // of those that share the key head
    const uint kv_head = workgroup / chunks % p.kv_heads;
    const uint batch = workgroup / chunks / p.kv_heads;
    if (batch >= p.batch) return;  // the whole workgroup leaves

    const uint tile = gl_WorkGroupSize.x;
    const uint lane = gl_LocalInvocationIndex;
    const uint groups = gl_WorkGroupSize.x / COLUMNS;
    const uint group = lane / COLUMNS;
    const uint value_pieces = p.value_dim / WIDTH;
    const uint key_blocks = p.kv_rows * p.kv_heads * (p.head_dim / 32);  // with Q8_CACHE
    const uint value_blocks = p.kv_rows * p.kv_heads * (p.value_dim / 32);

    const uint first_row = batch * p.heads + kv_head * shared_by + first_head;
    const uint rows = min(HEADS, shared_by - first_head);

    // Before it is known which keys there are, so that both are on their way. Heads past the end are the last again, and not stored.
    for (uint e = lane; e < HEADS * HEAD_PIECES * QUADS; e += tile) {
        const uint row = first_row + min(e / (HEAD_PIECES * QUADS), rows - 1);
        query_row[e] = LOAD4(query, row * (HEAD_PIECES * QUADS) + e % (HEAD_PIECES * QUADS));
    }
    const Split split = split_of(visible_keys(batch, 0), split_index, 1);
    if (split.index == split.count) return;  // the whole workgroup leaves
    const uint begin = split.begin;
    const uint end = split.end;

    const uint key_row = p.kv_heads * HEAD_PIECES, value_row = p.kv_heads * value_pieces;  // pieces from a key to the next
    const uint shared_key = lane / SHARERS, sharer = lane % SHARERS, keys_at_a_time = gl_WorkGroupSize.x / SHARERS;

    vec4 running_max = vec4(MINUS_INFINITY);
    vec4 running_sum = vec4(0.0);
    vec4 sums[COLUMN_STEPS * HEADS * QUADS];
    [[unroll]] for (uint s = 0; s < COLUMN_STEPS * HEADS * QUADS; ++s) sums[s] = vec4(0.0);
    for (uint first_key = begin; first_key < end; first_key += tile) {
        const uint keys = min(tile, end - first_key);

        uvec4 key_piece;  // past the last key the last one again: it is not used
        float part[SHARERS * HEADS];
        [[unroll]] for (uint k = 0; k < SHARERS; ++k) {
            const uint j = first_key + min(shared_key + k * keys_at_a_time, keys - 1);
            key_piece[k] = (row_offset(batch, p.mask.key_len, j, p.kv_rows) + j) * key_row + kv_head * HEAD_PIECES;
            [[unroll]] for (uint h = 0; h < HEADS; ++h) part[k * HEADS + h] = 0.0;
        }
        barrier();  // the query is complete; the weights of the tile before are read, and the rows of its keys
        if (IN_PAGES) {
            const uint j = first_key + min(lane, keys - 1);
            kv_rows[lane] = row_offset(batch, p.mask.key_len, j, p.kv_rows) + j;
        }
        const uint first_value = (IN_PAGES ? 0 : batch * p.mask.key_len + first_key) * value_row + kv_head * value_pieces;
        Piece ahead[VALUES];  // the first of the values come while the scores are made
        if (FETCHES_AHEAD)
            [[unroll]] for (uint k = 0; k < VALUES; ++k)
                ahead[k] = LOAD_PIECE(value, first_value + min(lane % COLUMNS, value_pieces - 1) +
                                                 min(group + k * groups, keys - 1) * value_row, value_blocks);
        [[dont_unroll]] for (uint step = 0; step < HEAD_STEPS; step += STEPS_AT_A_TIME) {
            Piece pieces[STEPS_AT_A_TIME * SHARERS];
            [[unroll]] for (uint s = 0; s < STEPS_AT_A_TIME; ++s)
                [[unroll]] for (uint k = 0; k < SHARERS; ++k) {
                    const uint d = min((step + s) * SHARERS + sharer, HEAD_PIECES - 1);
                    pieces[s * SHARERS + k] = LOAD_PIECE(key, key_piece[k] + d, key_blocks);
                }
            [[unroll]] for (uint s = 0; s < STEPS_AT_A_TIME; ++s) {
                const uint d = (step + s) * SHARERS + sharer;
                if (HEAD_PIECES % SHARERS == 0 || d < HEAD_PIECES)
                    [[unroll]] for (uint q = 0; q < QUADS; ++q) {
                        vec4 queries[HEADS];
                        [[unroll]] for (uint h = 0; h < HEADS; ++h) queries[h] = query_row[(h * HEAD_PIECES + d) * QUADS + q];
                        [[unroll]] for (uint k = 0; k < SHARERS; ++k) {
                            const vec4 elements = quad_of(pieces[s * SHARERS + k], q);
                            [[unroll]] for (uint h = 0; h < HEADS; ++h)
                                part[k * HEADS + h] = add_product(queries[h], elements, part[k * HEADS + h]);
                        }
                    }
            }
        }
        [[unroll]] for (uint k = 0; k < SHARERS; ++k)
            [[unroll]] for (uint h = 0; h < HEADS; ++h)
                scratch[(h * tile + shared_key + k * keys_at_a_time) * PITCH + sharer] = part[k * HEADS + h];
        barrier();
        vec4 scores = vec4(MINUS_INFINITY);
        [[unroll]] for (uint h = 0; h < HEADS; ++h) {
            float score = 0.0;
            [[unroll]] for (uint i = 0; i < SHARERS; ++i) score += scratch[(h * tile + lane) * PITCH + i];
            score *= p.scale;
            if ((MASK & kScoreSoftCap) != 0) score = soft_capped(score, p.soft_cap);
            const uint head = kv_head * shared_by + first_head + min(h, rows - 1);
            if (lane < keys) scores[h] = score + additive_mask(batch, head, 0, first_key + lane);
        }

        const vec4 largest = put_together(running_max, reduced(scores, false), false);
        vec4 shift = vec4(0.0);  // −∞ − (−∞) would be NaN
        [[unroll]] for (uint h = 0; h < HEADS; ++h)
            if (largest[h] != MINUS_INFINITY) shift[h] = largest[h];
        vec4 correction = vec4(0.0), weight = vec4(0.0);
        [[unroll]] for (uint h = 0; h < HEADS; ++h) {
            correction[h] = exp(running_max[h] - shift[h]);
            weight[h] = exp(scores[h] - shift[h]);
        }
        running_max = largest;
        running_sum = running_sum * correction + weight;  // of this invocation's keys
        barrier();                                        // the parts of the maximum are read
        weights[lane] = weight;
        barrier();

        [[unroll]] for (uint s = 0; s < COLUMN_STEPS * HEADS * QUADS; ++s) sums[s] *= correction[s / QUADS % HEADS];
        for (uint j = group; j < keys; j += VALUES * groups) {
            const bool is_whole = j + (VALUES - 1) * groups < keys;
            [[unroll]] for (uint c = 0; c < COLUMN_STEPS; ++c) {
                // Columns past the end repeat the last ones and are not stored; keys past the last are that one again, as zeros.
                const uint column = first_value + min(lane % COLUMNS + c * COLUMNS, value_pieces - 1);
                Piece pieces[VALUES];
                [[unroll]] for (uint k = 0; k < VALUES; ++k) {
                    if (FETCHES_AHEAD && c == 0 && j == group)
                        pieces[k] = ahead[k];
                    else
                        pieces[k] = LOAD_PIECE(value, column + kv_row(min(j + k * groups, keys - 1)) * value_row, value_blocks);
                }
                if (!is_whole)
                    [[unroll]] for (uint k = 0; k < VALUES; ++k)
                        if (j + k * groups >= keys) pieces[k] = NOTHING;
                [[unroll]] for (uint k = 0; k < VALUES; ++k) {
                    const vec4 of_key = weights[min(j + k * groups, tile - 1)];
                    [[unroll]] for (uint q = 0; q < QUADS; ++q) {
                        const vec4 elements = quad_of(pieces[k], q);
                        [[unroll]] for (uint h = 0; h < HEADS; ++h) {
                            const uint s = (c * HEADS + h) * QUADS + q;
                            sums[s] = fma(vec4(of_key[h]), elements, sums[s]);
                        }
                    }
                }
            }
        }
    }

    const vec4 totals = reduced(running_sum, true);
    if (lane < rows) {
        const uint base = partial_base(first_row + lane, split.index) + p.value_dim;
        partial[base + kPartialMaximum] = running_max[lane];
        partial[base + kPartialSum] = totals[lane];
    }
    // The groups' sums are added up through shared memory, in rising order.
    [[unroll]] for (uint c = 0; c < COLUMN_STEPS; ++c)
        [[unroll]] for (uint q = 0; q < QUADS; ++q) {
            barrier();  // scratch may still be read
            [[unroll]] for (uint h = 0; h < HEADS; ++h)
                [[unroll]] for (uint i = 0; i < 4; ++i)
                    scratch[(h * tile + lane) * 4 + i] = sums[(c * HEADS + h) * QUADS + q][i];
            barrier();
            for (uint e = lane; e < rows * COLUMNS * 4; e += tile) {
                const uint h = e / (COLUMNS * 4), element = e % (COLUMNS * 4);
                const uint piece = c * COLUMNS + element / 4;
                if (piece >= value_pieces) continue;
                float sum = 0.0;
                for (uint g = 0; g < groups; ++g) sum += scratch[(h * tile + g * COLUMNS) * 4 + element];
                partial[partial_base(first_row + h, split.index) + piece * WIDTH + q * 4 + element % 4] = sum;
            }
        }
    finish_rows(first_row, rows, split.count);
}
