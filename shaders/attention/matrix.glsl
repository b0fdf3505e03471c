// SPDX-License-Identifier: MIT
// What the attention on cooperative matrices has in common, with and without VK_NV_cooperative_matrix2: operands, the rows of a
// workgroup, and how they and tiles of keys and values come to shared memory.
// The shader declares before: STAGES, the tiles that shared memory holds at a time; Y_MEMORY, qualifiers of y.
#ifndef VKFORMER_ATTENTION_MATRIX_GLSL
#define VKFORMER_ATTENTION_MATRIX_GLSL
#include "attention/contract.h"
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
layout(push_constant) uniform Push { AttentionPush p; };
layout(std430, binding = kAttentionQuery) readonly buffer Query { float16_t query[]; };
layout(std430, binding = kAttentionQuery) readonly buffer Query4 { f16vec4 query4[]; };
#ifdef Q8_CACHE
layout(std430, binding = kAttentionKey) readonly buffer Key { uint key[]; };
layout(std430, binding = kAttentionValue) readonly buffer Value { uint value[]; };
#define KEY_ELEMENT(i) float16_t(KV_LOAD(key, i, key_blocks))
#define KEY_QUAD(i) f16vec4(KV_LOAD4(key, i, key_blocks))
#define VALUE_ELEMENT(i) float16_t(KV_LOAD(value, i, value_blocks))
#define VALUE_QUAD(i) f16vec4(KV_LOAD4(value, i, value_blocks))
#else
layout(std430, binding = kAttentionKey) readonly buffer Key { float16_t key[]; };
layout(std430, binding = kAttentionKey) readonly buffer Key4 { f16vec4 key4[]; };
layout(std430, binding = kAttentionValue) readonly buffer Value { float16_t value[]; };
layout(std430, binding = kAttentionValue) readonly buffer Value4 { f16vec4 value4[]; };
#define KEY_ELEMENT(i) key[i]
#define KEY_QUAD(i) key4[i]
#define VALUE_ELEMENT(i) value[i]
#define VALUE_QUAD(i) value4[i]
#endif
#define QUERY_ELEMENT(i) query[i]
#define QUERY_QUAD(i) query4[i]
layout(std430, binding = kAttentionKeyLengths) readonly buffer KeyLengths { int key_lengths[]; };
layout(std430, binding = kAttentionStarts) readonly buffer Starts { int starts[]; };
layout(std430, binding = kAttentionAdditive) readonly buffer Additive { float additive[]; };
layout(std430, binding = kAttentionY) writeonly Y_MEMORY buffer Y { float16_t y[]; };
#include "lib/attention_mask.glsl"
#include "lib/grid.glsl"
#include "lib/numbers.glsl"
#include "lib/soft_cap.glsl"

const uint ROWS = M * SUBGROUPS;
const uint DEPTH_STEPS = (HEAD_DIM + K - 1) / K;
const uint VALUE_STEPS = (VALUE_DIM + N - 1) / N;
const uint DEPTH_QUADS = DEPTH_STEPS * K / 4;
const uint VALUE_QUADS = VALUE_STEPS * N / 4;

// Rows are 16 bytes longer than what they hold: the rows that are read at a time then lie in different banks, and stay aligned to the
// 16 bytes that a matrix's rows must be.
const uint STAGE_PITCH = (DEPTH_QUADS > VALUE_QUADS ? DEPTH_QUADS : VALUE_QUADS) + 2;
const uint STAGE_SIZE = (ROWS > TILE_KEYS ? ROWS : TILE_KEYS) * STAGE_PITCH;
shared f16vec4 stage[STAGES * STAGE_SIZE];  // [row, depth] of the queries, [key, depth] or [key, value column]
shared uint not_finite;                     // of a value in the stage

const float16_t LARGEST_HALF = float16_t(65504.0);

#define ROW_MAJOR gl_CooperativeMatrixLayoutRowMajor
#define COLUMN_MAJOR gl_CooperativeMatrixLayoutColumnMajor
#define SUMS coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>

// stage[at + r · STAGE_PITCH …] = kept(row tensor_row(r) of the tensor), zeros after its `dim` elements and in rows ≥ count.
// (A macro, since buffers are no arguments.)
#define STAGE(at, element, element4, tensor_row, dim, quads, count, row_count, kept)             \
    for (uint e = gl_LocalInvocationIndex; e < row_count * quads; e += gl_WorkGroupSize.x) {     \
        const uint r = e / quads;                                                                \
        const uint quad = e % quads;                                                             \
        f16vec4 x = f16vec4(0.0);                                                                \
        if (dim % 4 == 0) {                                                                      \
            if (r < count && quad < dim / 4) x = element4(tensor_row(r) * (dim / 4) + quad);     \
        } else {                                                                                 \
            [[unroll]] for (uint c = 0; c < 4; ++c)                                              \
                if (r < count && quad * 4 + c < dim) x[c] = element(tensor_row(r) * dim + quad * 4 + c); \
        }                                                                                        \
        stage[at + r * STAGE_PITCH + quad] = kept(x);                                            \
    }

uint batch, kv_head, group, first_row, last_row;
uint first_key;
uint key_blocks, value_blocks;  // with Q8_CACHE

uint query_of(uint r) { return min(first_row + r, last_row) / group; }  // rows past the end repeat the last, are not stored
uint head_of(uint r) { return kv_head * group + min(first_row + r, last_row) % group; }
uint query_row(uint r) { return (batch * p.query_len + query_of(r)) * p.heads + head_of(r); }
uint key_row(uint j) { return (batch * p.mask.key_len + first_key + j) * p.kv_heads + kv_head; }

// 0 · NaN: the value of a key that a row does not see must not even be multiplied by 0, and a matrix multiplies all rows with all
// keys. So values that are not finite are staged as zeros, and added row by row. Nothing but broken weights ever comes here.
f16vec4 finite_part(f16vec4 x) {
    const bvec4 finite = lessThanEqual(abs(x), f16vec4(LARGEST_HALF));
    if (!all(finite)) atomicOr(not_finite, 1);  // several invocations may find one
    return mix(f16vec4(0.0), x, finite);
}

// Whether there is a tile of rows for this workgroup.
bool find_rows() {
    group = p.heads / p.kv_heads;
    const uint rows = p.query_len * group;
    const uint tiles = (rows + ROWS - 1) / ROWS;
    const uint workgroup = linear_workgroup();
    first_row = workgroup % tiles * ROWS;
    last_row = min(first_row + ROWS, rows) - 1;
    kv_head = workgroup / tiles % p.kv_heads;
    batch = workgroup / tiles / p.kv_heads;
    key_blocks = p.batch * p.mask.key_len * p.kv_heads * (HEAD_DIM / 32);
    value_blocks = p.batch * p.mask.key_len * p.kv_heads * (VALUE_DIM / 32);
    return batch < p.batch;
}
#endif
