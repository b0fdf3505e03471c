#version 460
// SPDX-License-Identifier: MIT
// y[b, i, h, :] = Σ_j softmax_j(s[i, j]) · value[b, j, g, :]: attention/tile.comp's formula, operands and mask, for Vulkan devices that are CPUs
// with subgroups of 8, head_dim a multiple of kCpuAttentionDepth, value_dim of 4, both up to kCpuAttentionMaxDim.
// With SPLIT_KEYS: decode_attention/split.comp's formula, operands and partial results.
// A row is a query of one of the `group` = heads / kv_heads heads that share keys and values: row i · group + h % group.
// A workgroup is one subgroup and owns ROWS rows of one key head (and one split of the keys). It takes a block of keys at a time, and its
// lanes lie along what is loaded: for the scores a lane has keys, for the sums it has words of a value, so that of keys, values and
// queries no element is loaded twice. The other operand, an element of a query or a weight, reaches all lanes as a broadcast, which is a
// shuffle from a lane that is known when the pipeline is made. There is neither shared memory nor a barrier; sums that do not fit the
// registers are on the stack, which on a CPU is the next best thing. Gain over cpu_devices/attention/queries.comp: docs/kernels.md.
// With VECTORS all three are loaded as vectors (cpu_devices/lib/vectors.glsl); lanes then lie along the depth for the scores, too, whose parts are
// added up for a key per lane. head_dim and value_dim are multiples of kCpuLanes words of 32 bits.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "cpu_devices/attention/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"
#include "cpu_devices/lib/wide.glsl"
#ifdef VECTORS
#include "cpu_devices/lib/lane_sums.glsl"
#include "cpu_devices/lib/vectors.glsl"
#define ADDRESSES                                               \
    layout(offset = kCpuAttentionQueryAddress) uint64_t query_address; \
    layout(offset = kCpuAttentionKeyAddress) uint64_t key_address;     \
    layout(offset = kCpuAttentionValueAddress) uint64_t value_address;
#else
#define ADDRESSES
#endif
// Results are stored as words of 32 bits: of a lane's sums two neighbours are neighbours in a row.
#ifdef F16
#include "lib/halves.glsl"
#define RESULT_WORD uint
const uint RESULT_ELEMENTS = 2;
uint result_word(vec2 elements) { return rounded_halves(elements); }
#else
#define RESULT_WORD float
const uint RESULT_ELEMENTS = 1;
float result_word(vec2 elements) { return elements.x; }
#endif

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kCpuAttentionHeadDim) const uint HEAD_DIM = 8;
layout(constant_id = kCpuAttentionValueDim) const uint VALUE_DIM = 4;
layout(constant_id = kAttentionMask) const uint MASK = 0;
layout(constant_id = kCpuAttentionRows) const uint ROWS = 1;
#ifdef SPLIT_KEYS
layout(push_constant) uniform Push { PART_OF_GRID DecodeAttentionPush p; ADDRESSES };
layout(std430, binding = kDecodeAttentionY) writeonly buffer Y { RESULT_WORD y[]; };
layout(std430, binding = kDecodeAttentionPages) readonly buffer Pages { uint pages[]; };
#include "decode_attention/words.glsl"
const uint QUERY_LEN = 1;
#define SPLITS p.splits
#else
layout(push_constant) uniform Push { PART_OF_GRID AttentionPush p; ADDRESSES };
layout(std430, binding = kAttentionY) writeonly buffer Y { RESULT_WORD y[]; };
layout(std430, binding = kAttentionPages) readonly buffer Pages { uint pages[]; };
layout(std430, binding = kAttentionKeyLengths) readonly buffer KeyLengths { int key_lengths[]; };
layout(std430, binding = kAttentionStarts) readonly buffer Starts { int starts[]; };
#define QUERY_LEN p.query_len
const uint SPLITS = 1;
#endif
#ifndef VECTORS
layout(std430, binding = kAttentionQuery) readonly buffer Query { WORD query[]; };
layout(std430, binding = kAttentionKey) readonly buffer Key { WORD key[]; };
layout(std430, binding = kAttentionValue) readonly buffer Value { WORD value[]; };
#endif
layout(std430, binding = kAttentionAdditive) readonly buffer Additive { float additive[]; };
#include "lib/attention_mask.glsl"
#include "lib/numbers.glsl"
#include "lib/soft_cap.glsl"
const bool IN_PAGES = (MASK & kKeysInPages) != 0;
#include "lib/pages.glsl"
#ifdef SPLIT_KEYS
#define ROW_PER_INVOCATION
#include "lib/split.glsl"
#endif

const uint LANES = kCpuLanes;
const uint KEYS = kCpuAttentionKeys, LANE_KEYS = KEYS / LANES;  // of a block, and of those a lane's: l, l + LANES, …
// DEPTH elements of a query are taken at a time: ROW_LANES lanes hold those of one row, the lanes behind them the next row's.
const uint DEPTH = kCpuAttentionDepth, ROW_LANES = DEPTH / WORD_ELEMENTS, LOAD_ROWS = LANES / ROW_LANES;
const uint STEP_ROWS = ROWS < 4 ? ROWS : 4;  // whose scores are worked on at a time
const uint STEP_LOADS = (STEP_ROWS + LOAD_ROWS - 1) / LOAD_ROWS, STEPS = ROWS / STEP_ROWS;
const uint HEAD_WORDS = HEAD_DIM / WORD_ELEMENTS;
// A lane has these words of a value, and of a row's sums: l · LANES + lane.
const uint VALUE_WORDS = VALUE_DIM / WORD_ELEMENTS, PARTS = (VALUE_WORDS + LANES - 1) / LANES, LANE_SUMS = PARTS * WORD_ELEMENTS;

const float LOG2_E = 1.44269504;  // scores are kept times log2(e), for exp2()
const float LARGEST = 3.402823466e38;
#ifdef SPLIT_KEYS
const bool SAME_KEYS_FOR_ALL = true;  // there is one query
#else
const bool SAME_KEYS_FOR_ALL = (MASK & (kMaskCausal | kMaskWindow)) == 0;  // all queries of a sequence see the same
#endif

uint group, batch, kv_head, first_row, last_row;
uint first_key, end_key;  // what any of the rows sees
uint block_offset;        // from a key of the block to its row of keys

uint query_row_of(uint row) { return (batch * QUERY_LEN + row / group) * p.heads + kv_head * group + row % group; }

// Row r has: its query, its head, its row in `query`, and the keys that it sees.
uint query_of[ROWS], head_of[ROWS], query_row[ROWS], first_seen[ROWS], end_seen[ROWS];

void find_rows() {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const uint row = min(first_row + r, last_row);  // past the end: the last again, not stored
        query_of[r] = row / group;
        head_of[r] = kv_head * group + row % group;
        query_row[r] = query_row_of(row);
        const uvec2 seen = SAME_KEYS_FOR_ALL ? uvec2(first_key, end_key) : visible_keys(batch, query_of[r]);
        first_seen[r] = seen.x;
        end_seen[r] = seen.y;
    }
}
// Past the end: the last again.
uint within(uint j) { return min(j, max(end_key, 1) - 1); }
uint kv_row(uint j) { return (block_offset + within(j)) * p.kv_heads + kv_head; }

// In pages a block lies in one of them: how far before a key its block begins.
uint before_blocks(uint j) { return IN_PAGES ? j % KEYS : 0; }

#ifdef VECTORS
#ifdef F16
vec4 vector_at(uint64_t address) { return word_elements(word_vector(address, address + LANES * 2)); }
#else
vec4 vector_at(uint64_t address) { return word_elements(float_vector(address, address + LANES * 2)); }
#endif

vec4 value_part(uint j, uint l) { return vector_at(value_address + uint64_t(kv_row(j) * VALUE_WORDS + l * LANES) * 4); }
#else
vec4 value_part(uint j, uint l) {
    return word_elements(value[kv_row(j) * VALUE_WORDS + min(l * LANES + gl_SubgroupInvocationID, VALUE_WORDS - 1)]);
}
#endif

// What a row has of an array is worked on in one of its own: Mesa's compiler takes time quadratic in the accesses to an array whose
// indices it does not know yet.
float score[ROWS][LANE_KEYS];  // of this lane's keys: products with the queries, then weights
float sums[ROWS][LANE_SUMS];
float maximum[ROWS], total[ROWS];  // the total of this lane's weights

#ifdef VECTORS
const uint HEAD_VECTORS = HEAD_WORDS / LANES, HEAD_ELEMENTS = HEAD_VECTORS * WORD_ELEMENTS;  // of a lane

// score[r][c] = query r · key of the block
void multiply_queries(uint block) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r)
        [[unroll]] for (uint c = 0; c < LANE_KEYS; ++c) score[r][c] = 0.0;
    // Not unrolled, which a constant would invite to: the compiler makes no vector loads where there are too many.
    const uint turns = min(p.batch, 1) * LANE_KEYS;
    for (uint turn = 0; turn < turns; ++turn) {
        float k[LANES][HEAD_ELEMENTS];
        [[unroll]] for (uint i = 0; i < LANES; ++i) {
            const uint64_t at = key_address + uint64_t(kv_row(block + turn * LANES + i) * HEAD_WORDS) * 4;
            [[unroll]] for (uint d = 0; d < HEAD_VECTORS; ++d) {
                const vec4 elements = vector_at(at + d * LANES * 4);
                [[unroll]] for (uint e = 0; e < WORD_ELEMENTS; ++e) k[i][d * WORD_ELEMENTS + e] = elements[e];
            }
        }
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            const uint64_t at = query_address + uint64_t(query_row[r] * HEAD_WORDS) * 4;
            float parts[LANES];
            [[unroll]] for (uint i = 0; i < LANES; ++i) parts[i] = 0.0;
            [[unroll]] for (uint d = 0; d < HEAD_VECTORS; ++d) {
                const vec4 elements = vector_at(at + d * LANES * 4);
                [[unroll]] for (uint e = 0; e < WORD_ELEMENTS; ++e)
                    [[unroll]] for (uint i = 0; i < LANES; ++i) parts[i] = fma(elements[e], k[i][d * WORD_ELEMENTS + e], parts[i]);
            }
            const float sum = lane_sums(parts);
            float own[LANE_KEYS] = score[r];
            [[unroll]] for (uint c = 0; c < LANE_KEYS; ++c) own[c] = turn == c ? sum : own[c];
            score[r] = own;
        }
    }
}
#else
// score[r][c] = query r · key of the block
void multiply_queries(uint block) {
    uint key_word[LANE_KEYS], query_word[STEPS * STEP_LOADS];
    [[unroll]] for (uint c = 0; c < LANE_KEYS; ++c) {
        key_word[c] = kv_row(block + c * LANES + gl_SubgroupInvocationID) * HEAD_WORDS;
        [[unroll]] for (uint r = 0; r < ROWS; ++r) score[r][c] = 0.0;
    }
    [[unroll]] for (uint i = 0; i < STEPS * STEP_LOADS; ++i) {
        const uint r = i / STEP_LOADS * STEP_ROWS + i % STEP_LOADS * LOAD_ROWS + gl_SubgroupInvocationID / ROW_LANES;
        query_word[i] = query_row_of(min(first_row + r, last_row)) * HEAD_WORDS + gl_SubgroupInvocationID % ROW_LANES;
    }
    for (uint word = 0; word < HEAD_WORDS; word += ROW_LANES) {
        float k[LANE_KEYS][DEPTH];
        [[unroll]] for (uint c = 0; c < LANE_KEYS; ++c)
            [[unroll]] for (uint i = 0; i < ROW_LANES; ++i) {
                const vec4 elements = word_elements(key[key_word[c] + word + i]);
                [[unroll]] for (uint e = 0; e < WORD_ELEMENTS; ++e) k[c][i * WORD_ELEMENTS + e] = elements[e];
            }
        [[unroll]] for (uint s = 0; s < STEPS; ++s) {
            vec4 elements[STEP_LOADS];
            [[unroll]] for (uint i = 0; i < STEP_LOADS; ++i)
                elements[i] = word_elements(query[query_word[s * STEP_LOADS + i] + word]);
            [[unroll]] for (uint r = 0; r < STEP_ROWS; ++r) {
                float own[LANE_KEYS] = score[s * STEP_ROWS + r];
                [[unroll]] for (uint d = 0; d < DEPTH; ++d) {
                    const float q = subgroupShuffle(elements[r / LOAD_ROWS][d % WORD_ELEMENTS],
                                                    r % LOAD_ROWS * ROW_LANES + d / WORD_ELEMENTS);
                    [[unroll]] for (uint c = 0; c < LANE_KEYS; ++c) own[c] = fma(q, k[c][d], own[c]);
                }
                score[s * STEP_ROWS + r] = own;
            }
        }
    }
}
#endif

// score[r][c] = 2^(scaled and masked score − maximum); what was summed up before becomes relative to the new maximum.
void weigh(uint block) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const uint first = first_seen[r], end = end_seen[r];
        float lane_largest = MINUS_INFINITY;
        float own[LANE_KEYS] = score[r];
        [[unroll]] for (uint c = 0; c < LANE_KEYS; ++c) {
            const uint j = block + c * LANES + gl_SubgroupInvocationID;
            float x = own[c] * (p.scale * LOG2_E);
            if ((MASK & kScoreSoftCap) != 0) x = soft_capped(x, p.soft_cap * LOG2_E);
            x += LOG2_E * additive_mask(batch, head_of[r], query_of[r], min(j, end_key - 1));
            own[c] = j >= first && j < end ? x : MINUS_INFINITY;
            lane_largest = max(lane_largest, own[c]);  // whatever it does with a NaN: the weight of that is NaN
        }
        float largest = maximum[r];
        [[unroll]] for (uint l = 0; l < LANES; ++l) largest = max(largest, subgroupShuffle(lane_largest, l));
        const float shift = largest == MINUS_INFINITY ? 0.0 : largest;  // −∞ − (−∞) would be NaN
        const float correction = exp2(maximum[r] - shift);
        maximum[r] = largest;
        float weights = total[r] * correction;
        [[unroll]] for (uint c = 0; c < LANE_KEYS; ++c) {
            own[c] = exp2(own[c] - shift);
            weights += own[c];
        }
        total[r] = weights;
        score[r] = own;
        float corrected[LANE_SUMS];
        [[unroll]] for (uint v = 0; v < LANE_SUMS; ++v) corrected[v] = sums[r][v];
        [[unroll]] for (uint v = 0; v < LANE_SUMS; ++v) corrected[v] *= correction;
        [[unroll]] for (uint v = 0; v < LANE_SUMS; ++v) sums[r][v] = corrected[v];
    }
}

// The weights of keys turn · LANES … of the block. `turn` is no constant, and an array's index had better be one.
float weights_of(uint r, uint turn) {
    const float own[LANE_KEYS] = score[r];
    float weights = own[0];
    [[unroll]] for (uint c = 1; c < LANE_KEYS; ++c) weights = turn == c ? own[c] : weights;
    return weights;
}

bool any_lane(bool here) {
    uint any = 0;
    [[unroll]] for (uint l = 0; l < LANES; ++l) any |= subgroupShuffle(uint(here), l);
    return any != 0;
}

// sums += weights · values. 0 · NaN: the value of a key that a row does not see must not even be multiplied by 0. So values that are not
// finite are left out at first, and added row by row. Nothing but broken weights ever needs that.
void sum_values(uint block) {
    bool not_finite = false;
    const uint turns = min(p.batch, 1) * LANE_KEYS;  // no constant, see multiply_queries()
    for (uint turn = 0; turn < turns; ++turn) {
        float x[LANES][LANE_SUMS];
        [[unroll]] for (uint k = 0; k < LANES; ++k)
            [[unroll]] for (uint l = 0; l < PARTS; ++l) {
                const vec4 elements = value_part(block + turn * LANES + k, l);
                [[unroll]] for (uint e = 0; e < WORD_ELEMENTS; ++e) {
                    const bool finite = abs(elements[e]) <= LARGEST;
                    not_finite = not_finite || !finite;
                    x[k][l * WORD_ELEMENTS + e] = finite ? elements[e] : 0.0;
                }
            }
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            const float weights = weights_of(r, turn);
            float own[LANE_SUMS];
            [[unroll]] for (uint v = 0; v < LANE_SUMS; ++v) own[v] = sums[r][v];
            [[unroll]] for (uint k = 0; k < LANES; ++k) {
                const float weight = subgroupShuffle(weights, k);
                [[unroll]] for (uint v = 0; v < LANE_SUMS; ++v) own[v] = fma(weight, x[k][v], own[v]);
            }
            [[unroll]] for (uint v = 0; v < LANE_SUMS; ++v) sums[r][v] = own[v];
        }
    }
    for (uint k = any_lane(not_finite) ? 0 : KEYS; k < KEYS; ++k) {
        float x[LANE_SUMS];
        [[unroll]] for (uint l = 0; l < PARTS; ++l) {
            const vec4 elements = value_part(block + k, l);
            [[unroll]] for (uint e = 0; e < WORD_ELEMENTS; ++e)
                x[l * WORD_ELEMENTS + e] = abs(elements[e]) <= LARGEST ? 0.0 : elements[e];
        }
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            const float weight = subgroupShuffle(weights_of(r, k / LANES), k % LANES);
            const bool seen = block + k >= first_seen[r] && block + k < end_seen[r];
            float own[LANE_SUMS];
            [[unroll]] for (uint v = 0; v < LANE_SUMS; ++v) own[v] = sums[r][v];
            [[unroll]] for (uint v = 0; v < LANE_SUMS; ++v) own[v] = seen ? fma(weight, x[v], own[v]) : own[v];
            [[unroll]] for (uint v = 0; v < LANE_SUMS; ++v) sums[r][v] = own[v];
        }
    }
}

// Where in a row of values this lane's sum v belongs; past its end where the row has fewer words.
uint column_of(uint v) { return (v / WORD_ELEMENTS * LANES + gl_SubgroupInvocationID) * WORD_ELEMENTS + v % WORD_ELEMENTS; }

void main() {
    group = p.heads / p.kv_heads;
    const uint rows = QUERY_LEN * group;
    const uint tiles = (rows + ROWS - 1) / ROWS;
    uint workgroup = linear_workgroup();
    const uint split_index = workgroup % SPLITS;
    workgroup /= SPLITS;
    first_row = workgroup % tiles * ROWS;
    last_row = min(first_row + ROWS, rows) - 1;
    kv_head = workgroup / tiles % p.kv_heads;
    batch = workgroup / tiles / p.kv_heads;
    if (batch >= p.batch) return;
#ifdef VECTORS
    batch = min(batch, p.batch - 1);  // cpu_devices/lib/vectors.glsl says why
#endif
#ifdef SPLIT_KEYS
    const uvec2 seen = visible_keys(batch, 0);
    const Split split = split_of(uvec2(seen.x - before_blocks(seen.x), seen.y), split_index, IN_PAGES ? KEYS : 1);
    if (split.index == split.count) return;  // the whole workgroup leaves
    first_key = max(split.begin, seen.x);
    end_key = split.end;
#else
    first_key = visible_keys(batch, first_row / group).x;
    end_key = visible_keys(batch, last_row / group).y;
#endif
    find_rows();
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        [[unroll]] for (uint v = 0; v < LANE_SUMS; ++v) sums[r][v] = 0.0;
        maximum[r] = MINUS_INFINITY;
        total[r] = 0.0;
    }
    for (uint block = first_key - before_blocks(first_key); block < end_key; block += KEYS) {
        block_offset = row_offset(batch, p.mask.key_len, within(block), p.kv_rows);
        multiply_queries(block);
        weigh(block);
        sum_values(block);
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        float all = 0.0;
        [[unroll]] for (uint l = 0; l < LANES; ++l) all += subgroupShuffle(total[r], l);
        total[r] = all;
    }

#ifdef SPLIT_KEYS
    if (split.count > 1) {
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            if (first_row + r > last_row) continue;
            const uint base = partial_base(query_row[r], split.index);
            [[unroll]] for (uint v = 0; v < LANE_SUMS; ++v)
                if (column_of(v) < VALUE_DIM) partial[base + column_of(v)] = sums[r][v];
            if (gl_SubgroupInvocationID > 0) continue;
            partial[base + VALUE_DIM + kPartialMaximum] = maximum[r] / LOG2_E;
            partial[base + VALUE_DIM + kPartialSum] = total[r];
        }
        memoryBarrierBuffer();  // what this lane stored is there
        subgroupBarrier();      // and what the others did, before the split is counted, for all rows at once
        uint is_last = 0;
        if (gl_SubgroupInvocationID == 0) is_last = uint(is_last_split(query_row[0], split.count));
        if (subgroupShuffle(is_last, 0) == 0) return;
        memoryBarrierBuffer();
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            const float shift = shift_of(query_row[r], split.count);
            maximum[r] = shift * LOG2_E;
            [[unroll]] for (uint v = 0; v < LANE_SUMS; ++v) sums[r][v] = 0.0;
            total[r] = 0.0;
            for (uint s = 0; s < split.count; ++s) {
                const uint from = partial_base(query_row[r], s);
                const float factor = exp(partial[from + VALUE_DIM + kPartialMaximum] - shift);
                total[r] += factor * partial[from + VALUE_DIM + kPartialSum];
                [[unroll]] for (uint v = 0; v < LANE_SUMS; ++v)
                    sums[r][v] += factor * partial[from + min(column_of(v), VALUE_DIM - 1)];
            }
        }
    }
#endif
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        if (first_row + r > last_row) continue;
        total[r] += sink_weight(head_of[r], maximum[r] / LOG2_E);
        [[unroll]] for (uint v = 0; v < LANE_SUMS; v += RESULT_ELEMENTS)
            if (column_of(v) < VALUE_DIM)
                y[(query_row[r] * VALUE_DIM + column_of(v)) / RESULT_ELEMENTS] =
                    result_word(total[r] == 0.0 ? vec2(0.0) : vec2(sums[r][v], sums[r][v + RESULT_ELEMENTS - 1]) / total[r]);
    }
}
