// SPDX-License-Identifier: MIT
// What the attention on cooperative matrices has in common, with and without VK_NV_cooperative_matrix2: operands, the rows of a
// workgroup, and where they and tiles of keys and values lie in shared memory. The shader declares before: Y_MEMORY, qualifiers of y.
#ifndef VKFORMER_ATTENTION_MATRIX_GLSL
#define VKFORMER_ATTENTION_MATRIX_GLSL
#include "attention/contract.h"
#include "lib/grid.glsl"
#include "lib/kv_cache.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kAttentionMatrixHeadDim) const uint HEAD_DIM = 4;
layout(constant_id = kAttentionMatrixValueDim) const uint VALUE_DIM = 4;
layout(constant_id = kAttentionMask) const uint MASK = 0;
layout(constant_id = kAttentionMatrixM) const uint M = 16;
layout(constant_id = kAttentionMatrixN) const uint N = 16;
layout(constant_id = kAttentionMatrixK) const uint K = 16;
layout(constant_id = kAttentionMatrixSubgroups) const uint SUBGROUPS = 1;
layout(constant_id = kAttentionMatrixTileKeys) const uint TILE_KEYS = 32;
layout(push_constant) uniform Push { PART_OF_GRID AttentionPush p; };
layout(std430, binding = kAttentionQuery) readonly buffer Query { float16_t query[]; };
layout(std430, binding = kAttentionQuery) readonly buffer Query8 { uvec4 query8[]; };
#ifdef Q8_CACHE
layout(std430, binding = kAttentionKey) readonly buffer Key { uint key[]; };
layout(std430, binding = kAttentionValue) readonly buffer Value { uint value[]; };
#define VALUE_ELEMENT(i) float16_t(KV_LOAD(value, i, value_blocks))
#else
layout(std430, binding = kAttentionKey) readonly buffer Key { float16_t key[]; };
layout(std430, binding = kAttentionKey) readonly buffer Key8 { uvec4 key8[]; };
layout(std430, binding = kAttentionValue) readonly buffer Value { float16_t value[]; };
layout(std430, binding = kAttentionValue) readonly buffer Value8 { uvec4 value8[]; };
#define VALUE_ELEMENT(i) value[i]
#endif
layout(std430, binding = kAttentionKeyLengths) readonly buffer KeyLengths { int key_lengths[]; };
layout(std430, binding = kAttentionStarts) readonly buffer Starts { int starts[]; };
layout(std430, binding = kAttentionAdditive) readonly buffer Additive { float additive[]; };
layout(std430, binding = kAttentionPages) readonly buffer Pages { uint pages[]; };
layout(std430, binding = kAttentionY) writeonly Y_MEMORY buffer Y { float16_t y[]; };
#include "lib/attention_mask.glsl"
#include "lib/numbers.glsl"
#include "lib/soft_cap.glsl"
const bool IN_PAGES = (MASK & kKeysInPages) != 0;
#include "lib/pages.glsl"

const uint ROWS = M * SUBGROUPS;
const uint DEPTH_STEPS = (HEAD_DIM + K - 1) / K;
const uint VALUE_STEPS = (VALUE_DIM + N - 1) / N;
const uint DEPTH_OCTETS = DEPTH_STEPS * K / 8;
const uint VALUE_OCTETS = VALUE_STEPS * N / 8;

// Rows lie as they do in memory. So values lie across the direction in which their product adds up: a matrix of them is loaded by halves
// where no instruction transposes. To stage them transposed costs more (docs/shaders.md). Rows are 16 bytes longer than what they hold: the
// rows that are read at a time then lie in different banks, and stay aligned to the 16 bytes that a matrix's rows must be.
const uint DEPTH_PITCH = DEPTH_OCTETS + 1;        // of a query or key, in octets
const uint VALUE_PITCH = VALUE_OCTETS + 1;        // of a value
const uint QUERY_TILE = ROWS * DEPTH_PITCH;       // [row, depth]
const uint KEY_TILE = TILE_KEYS * DEPTH_PITCH;    // [key, depth]
const uint VALUE_TILE = TILE_KEYS * VALUE_PITCH;  // [key, value column]
#define LARGER(a, b) ((a) > (b) ? (a) : (b))

const float16_t LARGEST_HALF = float16_t(65504.0);

#define ROW_MAJOR gl_CooperativeMatrixLayoutRowMajor
#define COLUMN_MAJOR gl_CooperativeMatrixLayoutColumnMajor
#define SUMS coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>

uint batch, kv_head, group, first_row, last_row;
uint first_key;                 // of the tile that is worked on
uint end_key;                   // behind the last that any row of the workgroup sees
uint all_see_from, all_see_to;  // keys that all its rows see
uint key_blocks, value_blocks;  // with Q8_CACHE

uint query_of(uint r) { return min(first_row + r, last_row) / group; }  // rows past the end repeat the last, are not stored
uint head_of(uint r) { return kv_head * group + min(first_row + r, last_row) % group; }
uint query_row(uint r) { return (batch * p.query_len + query_of(r)) * p.heads + head_of(r); }
// From a key to its row, as from all in a page.
uint key_offset(uint j) { return row_offset(batch, p.mask.key_len, j, p.kv_rows); }
uint key_row(uint j) { return (key_offset(j) + j) * p.kv_heads + kv_head; }
// Where tiles begin that reach from `first` on: in pages a tile lies in one of them.
uint first_tile(uint first) { return first - (IN_PAGES ? first % TILE_KEYS : 0); }

// Whether there is a tile of rows, and of keys, for this workgroup. Neighbouring workgroups read the same keys. Under a causal mask a key
// head's last rows come first: they see most keys, and a GPU that starts workgroups in order would end with the longest. Not those of all
// heads: neighbours would share no keys, and a part of the grid would not tell how long the rest of it takes (vulkan/run_parts.hpp).
bool find_rows_and_keys() {
    group = p.heads / p.kv_heads;
    const uint rows = p.query_len * group;
    const uint row_tiles = (rows + ROWS - 1) / ROWS, key_heads = p.batch * p.kv_heads;
    const uint workgroup = linear_workgroup();
    if (workgroup >= row_tiles * key_heads) return false;
    const uint tile_of_head = workgroup % row_tiles, key_head = workgroup / row_tiles;
    const uint row_tile = (MASK & kMaskCausal) != 0 ? row_tiles - 1 - tile_of_head : tile_of_head;
    first_row = row_tile * ROWS;
    last_row = min(first_row + ROWS, rows) - 1;
    kv_head = key_head % p.kv_heads;
    batch = key_head / p.kv_heads;
    key_blocks = p.kv_rows * p.kv_heads * (HEAD_DIM / 32);
    value_blocks = p.kv_rows * p.kv_heads * (VALUE_DIM / 32);
    const uvec2 first_sees = visible_keys(batch, first_row / group), last_sees = visible_keys(batch, last_row / group);
    first_key = first_tile(first_sees.x);
    end_key = last_sees.y;
    all_see_from = last_sees.x;
    all_see_to = first_sees.y;
    return true;
}

// Scores are scaled products, and no more, in tiles of keys that all rows see whole: most where sequences are long. Elsewhere, and always
// with MASKED_THROUGHOUT, each goes through masked_score().
const bool MASKED_THROUGHOUT = (MASK & (kScoreSoftCap | kMaskAdditive)) != 0;
bool is_tile_masked() { return MASKED_THROUGHOUT || first_key < all_see_from || first_key + TILE_KEYS > all_see_to; }

// The score of row r, which sees the keys `seen`, and key j.
float masked_score(float score, uint r, uint j, uvec2 seen) {
    if (j < seen.x || j >= seen.y) return MINUS_INFINITY;
    if ((MASK & kScoreSoftCap) != 0) score = soft_capped(score, p.soft_cap);
    return score + additive_mask(batch, head_of(r), query_of(r), j);
}
#endif
