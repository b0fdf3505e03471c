#version 460
// SPDX-License-Identifier: MIT
// y = f(x · weightᵀ + bias) + residual, for many rows whose width is a multiple of 4. x: [rows, in], weight: [out, in],
// bias: [out], residual, y: [rows, out]; storage as lib/storage.glsl says (residual and y: linear/epilogue.glsl), sums in float32, in
// the order of the depth.
// One workgroup per tile of 8 · ROWS rows × 64 columns of y. Both operands pass through shared memory in slices of four quads, a
// quad being four neighbours of a row, which is how they are loaded, stored and multiplied: three or two vectors are read for 32
// multiplications, where linear/tile.comp reads 12 numbers. Invocation (i, j) of 16 × 8 owns columns i + 16c and rows j + 8r, c < 4: four
// rows or a multiple of that.
// Rows and columns past the end repeat the last one and are not stored; only the depth is padded with zeros. With AHEAD the next slice
// is on its way from memory while one is multiplied (linear/slices.glsl).
// QUANTIZED: weight as lib/dequantize.glsl says, in a multiple of 16. An invocation has eight elements of a column's slice, which become
// floats on their way into shared memory.
// linear/split_depth.glsl says what a workgroup does with a part of the depth.
// EXPERTS: rows are those of a tile that expert_linear/group.comp has made, and weight, out and y those of its expert.
// Shared memory: (64 + 8 · ROWS) · 5 · 16 bytes: 10 KiB for 8 rows an invocation, 15 KiB for 16.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef EXPERTS
#include "expert_linear/product.glsl"
#else
#include "linear/epilogue.glsl"
#include "linear/split_depth.glsl"
#endif
#include "linear/slices.glsl"
#include "lib/tile_sums.glsl"
#define LOAD_WORDS
#include "lib/storage4.glsl"
#ifdef QUANTIZED
#define WEIGHT_BINDING kLinearWeight
#define WEIGHT_FORMAT kLinearWeightFormat
#define BIASED_Q8
#define EIGHTS
#include "lib/dequantize.glsl"
#endif

layout(constant_id = kLinearRows) const uint ROWS = 8;  // of an invocation
layout(constant_id = kLinearUnrolledQuads) const uint UNROLLED_QUADS = 4;
layout(constant_id = kLinearAhead) const uint AHEAD = 1;
layout(std430, binding = kLinearX) readonly buffer X { ELEMENT4 x[]; };

const uint LANES_ALONG_COLUMNS = 16;
const uint LANES_ALONG_ROWS = kLinearVec4RowLanes;
const uint COLUMNS = kLinearTileColumns / LANES_ALONG_COLUMNS;  // of an invocation
const uint TILE_ROWS = LANES_ALONG_ROWS * ROWS;
const uint PITCH = QUADS + 1;  // odd: eight rows of a quad each then lie in 32 banks
const uint FETCH_ROWS = kLinearTileWorkgroup / QUADS;  // that the workgroup fetches at a time
const uint X_FETCHES = TILE_ROWS / FETCH_ROWS;
shared vec4 x_slice[TILE_ROWS * PITCH];
shared vec4 weight_slice[kLinearTileColumns * PITCH];

// What this invocation fetches of a slice: one quad each of the rows of x that begin with these quads.
uint x_start[X_FETCHES];
ELEMENT4 next_x[X_FETCHES];

// Chosen, not branched to.
vec4 padded(vec4 elements, uint slice, uint quad) { return mix(vec4(0.0), elements, bvec4(is_in_depth(slice, quad))); }

// The weight, in pieces of a column: an invocation has number `piece` of some columns.
#ifdef QUANTIZED
#define Piece Stored16
const uint PIECES = 2;  // of a column's slice

// Where a row of the weight begins.
uint start_of_row(uint row) { return (packed_before() + row) * (p.in_width / BLOCK_ELEMENTS); }

Piece load_weight(uint start, uint slice, uint piece) {
    return load16(place_of(start, min(slice, p.in_width / 16 - 1), piece), packed_rows() * (p.in_width / BLOCK_ELEMENTS));
}

void put_weight(uint column, Piece stored, uint start, uint slice, uint piece) {
    const Place at = place_of(start, slice, piece);
    const Sixteen packed = unpack16(stored, at);
    const vec2 scale = scale16(stored, at);
    [[unroll]] for (uint i = 0; i < 2; ++i) weight_slice[column * PITCH + 2 * piece + i] = scale.x * quad_of(packed, i) + scale.y;
}
#else
layout(std430, binding = kLinearWeight) readonly buffer Weight { ELEMENT4 weight[]; };
#define Piece ELEMENT4
const uint PIECES = QUADS;

uint start_of_row(uint row) { return (weight_before() + row) * (p.in_width / 4); }
Piece load_weight(uint start, uint slice, uint piece) { return weight[start + quad_of_depth(slice, piece)]; }

void put_weight(uint column, Piece stored, uint start, uint slice, uint piece) {
    weight_slice[column * PITCH + piece] = padded(FLOATS4(stored), slice, piece);
}
#endif
const uint FETCH_COLUMNS = kLinearTileWorkgroup / PIECES;
const uint WEIGHT_FETCHES = kLinearTileColumns / FETCH_COLUMNS;
uint weight_start[WEIGHT_FETCHES];
Piece next_weight[WEIGHT_FETCHES];

// Past the end of the depth, its last quads, which are not used.
void fetch(uint slice) {
    const uint lane = gl_LocalInvocationIndex;
    [[unroll]] for (uint i = 0; i < X_FETCHES; ++i) next_x[i] = x[x_start[i] + quad_of_depth(slice, lane % QUADS)];
    [[unroll]] for (uint i = 0; i < WEIGHT_FETCHES; ++i) next_weight[i] = load_weight(weight_start[i], slice, lane % PIECES);
}

// Stores what was fetched of the slice.
void put(uint slice) {
    const uint lane = gl_LocalInvocationIndex, quad = lane % QUADS;
    [[unroll]] for (uint i = 0; i < X_FETCHES; ++i)
        x_slice[(lane / QUADS + i * FETCH_ROWS) * PITCH + quad] = padded(FLOATS4(next_x[i]), slice, quad);
    [[unroll]] for (uint i = 0; i < WEIGHT_FETCHES; ++i)
        put_weight(lane / PIECES + i * FETCH_COLUMNS, next_weight[i], weight_start[i], slice, lane % PIECES);
}

vec4 x_quad(uint row, uint q) { return x_slice[row * PITCH + q]; }
vec4 weight_quad(uint column, uint q) { return weight_slice[column * PITCH + q]; }

void main() {
    const uint column_tiles = (p.out_width + kLinearTileColumns - 1) / kLinearTileColumns;
    const uint tile = split_workgroup();
    const uvec2 rows = rows_of_tile(tile / column_tiles, TILE_ROWS);
    const uint tile_column = tile % column_tiles * kLinearTileColumns;
    if (rows.x >= rows.y) return;  // the whole workgroup leaves
    const uint lane = gl_LocalInvocationIndex;
    const uint column_lane = lane % LANES_ALONG_COLUMNS, row_lane = lane / LANES_ALONG_COLUMNS;

    [[unroll]] for (uint i = 0; i < X_FETCHES; ++i)
        x_start[i] = row_of_x(min(rows.x + lane / QUADS + i * FETCH_ROWS, rows.y - 1)) * (p.in_width / 4);
    [[unroll]] for (uint i = 0; i < WEIGHT_FETCHES; ++i)
        weight_start[i] = start_of_row(weight_row_of(tile_column + lane / PIECES + i * FETCH_COLUMNS, LANES_ALONG_COLUMNS));

    mat4 sum[ROWS / 4];  // of four rows each
    [[unroll]] for (uint i = 0; i < ROWS / 4; ++i) sum[i] = mat4(0.0);

    const uvec2 slices = steps_of_split(slices_of_depth());
    if (AHEAD != 0) fetch(slices.x);
    for (uint slice = slices.x; slice < slices.y; ++slice) {
        if (AHEAD == 0) fetch(slice);
        put(slice);
        barrier();
        if (AHEAD != 0) fetch(slice + 1);
        for (uint first = 0; first < QUADS; first += UNROLLED_QUADS) {
            [[unroll]] for (uint i = 0; i < UNROLLED_QUADS; ++i) {
                const uint q = first + i;
                const mat4 w = mat4(weight_quad(column_lane, q), weight_quad(column_lane + LANES_ALONG_COLUMNS, q),
                                    weight_quad(column_lane + 2 * LANES_ALONG_COLUMNS, q),
                                    weight_quad(column_lane + 3 * LANES_ALONG_COLUMNS, q));
                [[unroll]] for (uint i = 0; i < ROWS / 4; ++i) {
                    const uint row = row_lane + 4 * i * LANES_ALONG_ROWS;
                    add_products(sum[i], 0, x_quad(row, q), w);
                    add_products(sum[i], 1, x_quad(row + LANES_ALONG_ROWS, q), w);
                    add_products(sum[i], 2, x_quad(row + 2 * LANES_ALONG_ROWS, q), w);
                    add_products(sum[i], 3, x_quad(row + 3 * LANES_ALONG_ROWS, q), w);
                }
            }
        }
        barrier();  // before the next slices overwrite these
    }

    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const uint row = rows.x + row_lane + r * LANES_ALONG_ROWS;
        if (row >= rows.y) continue;
        const vec4 sums = row_of(sum[r / 4], r % 4);
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
            FINISH_COLUMN(row, tile_column + column_lane, LANES_ALONG_COLUMNS, c, sums)
    }
}
