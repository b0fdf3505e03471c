#version 460
// SPDX-License-Identifier: MIT
// linear/tile_vec4.comp's product in float16 arithmetic, for devices that multiply and add pairs of halves in one instruction and have no
// cooperative matrices. x: float16 [rows, in], weight: float16 [out, in], in a multiple of 4; the rest as linear/epilogue.glsl says.
// One workgroup per tile of 64 rows × 64 columns of y; invocation (i, j) of 16 × 8 owns columns i + 16c and rows j + 8r. Slices of four
// quads of both operands lie in shared memory as halves. Their sixteen products are added up in a pair of halves, eight in each, and the
// pair is added to a float32 sum: what is lost against linear/tile_vec4.comp is the rounding of sums of up to eight products to 11 bits, of
// products of one sign at most (1 + … + 8) / 8 = 4.5 units of 2^-11.
// Halves end at 65504 and lose bits below 6e-5, where the float32 products of halves meet neither end. So both operands are staged
// times 16: products down to 2.4e-7 then keep all bits. A tile whose sums are not finite, because one of eight products passed 255 or
// an operand 4094, is computed again with float32 products.
// Shared memory: 128 · 5 · 8 bytes, 5 KiB.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "linear/epilogue.glsl"
#include "linear/slices.glsl"

layout(std430, binding = kLinearX) readonly buffer X { f16vec4 x[]; };
layout(std430, binding = kLinearWeight) readonly buffer Weight { f16vec4 weight[]; };

const uint LANES_ALONG_COLUMNS = 16;
const uint LANES_ALONG_ROWS = kLinearVec4RowLanes;
const uint ROWS = 8, COLUMNS = kLinearTileColumns / LANES_ALONG_COLUMNS;  // of an invocation
const uint TILE_ROWS = LANES_ALONG_ROWS * ROWS;
const uint PITCH = QUADS + 1;  // odd: sixteen rows of a quad each then lie in 32 banks
const uint FETCH_ROWS = kLinearTileWorkgroup / QUADS;  // that the workgroup fetches at a time
const uint X_FETCHES = TILE_ROWS / FETCH_ROWS;
const uint WEIGHT_FETCHES = kLinearTileColumns / FETCH_ROWS;
const float16_t RAISE = float16_t(16.0);
shared f16vec4 x_slice[TILE_ROWS * PITCH];
shared f16vec4 weight_slice[kLinearTileColumns * PITCH];
shared uint not_finite;

// What this invocation fetches of a slice: one quad each of the rows that begin with these quads.
uint x_start[X_FETCHES], weight_start[WEIGHT_FETCHES];
f16vec4 next_x[X_FETCHES], next_weight[WEIGHT_FETCHES];
float sum[ROWS][COLUMNS];

// Where the slices of this invocation's row r and column c begin.
uint x_at(uint r) { return (gl_LocalInvocationIndex / LANES_ALONG_COLUMNS + r * LANES_ALONG_ROWS) * PITCH; }
uint weight_at(uint c) { return (gl_LocalInvocationIndex % LANES_ALONG_COLUMNS + c * LANES_ALONG_COLUMNS) * PITCH; }

void fetch(uint slice) {
    const uint at = quad_of_depth(slice, gl_LocalInvocationIndex % QUADS);
    [[unroll]] for (uint i = 0; i < X_FETCHES; ++i) next_x[i] = x[x_start[i] + at];
    [[unroll]] for (uint i = 0; i < WEIGHT_FETCHES; ++i) next_weight[i] = weight[weight_start[i] + at];
}

// Stores what was fetched of the slice.
void put(uint slice, float16_t factor) {
    const uint lane = gl_LocalInvocationIndex, quad = lane % QUADS, stored = lane / QUADS * PITCH + quad;
    const bvec4 is_inside = bvec4(is_in_depth(slice, quad));
    [[unroll]] for (uint i = 0; i < X_FETCHES; ++i)
        x_slice[stored + i * FETCH_ROWS * PITCH] = mix(f16vec4(0.0), next_x[i] * factor, is_inside);
    [[unroll]] for (uint i = 0; i < WEIGHT_FETCHES; ++i)
        weight_slice[stored + i * FETCH_ROWS * PITCH] = mix(f16vec4(0.0), next_weight[i] * factor, is_inside);
}

// sum = the tile's products, in halves and RAISE² times too large, or in floats.
void add_products(bool in_halves) {
    const float16_t factor = in_halves ? RAISE : float16_t(1.0);
    [[unroll]] for (uint r = 0; r < ROWS; ++r)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) sum[r][c] = 0.0;
    fetch(0);
    for (uint slice = 0; slice < slices_of_depth(); ++slice) {
        put(slice, factor);
        barrier();
        fetch(slice + 1);
        if (in_halves) {
            f16vec4 w[COLUMNS * QUADS];
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
                [[unroll]] for (uint q = 0; q < QUADS; ++q) w[c * QUADS + q] = weight_slice[weight_at(c) + q];
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                f16vec4 value[QUADS];
                [[unroll]] for (uint q = 0; q < QUADS; ++q) value[q] = x_slice[x_at(r) + q];
                [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                    f16vec2 pair = value[0].xy * w[c * QUADS].xy;
                    [[unroll]] for (uint q = 0; q < QUADS; ++q) {
                        if (q > 0) pair = fma(value[q].xy, w[c * QUADS + q].xy, pair);
                        pair = fma(value[q].zw, w[c * QUADS + q].zw, pair);
                    }
                    sum[r][c] += float(pair.x);
                    sum[r][c] += float(pair.y);
                }
            }
        } else {
            for (uint q = 0; q < min(QUADS, p.in_width / 4 - slice * QUADS); ++q) {
                vec4 w[COLUMNS];
                [[unroll]] for (uint c = 0; c < COLUMNS; ++c) w[c] = vec4(weight_slice[weight_at(c) + q]);
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    const vec4 value = vec4(x_slice[x_at(r) + q]);
                    [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
                        sum[r][c] = add_product(value, w[c], sum[r][c]);
                }
            }
        }
        barrier();  // before the next slices overwrite these
    }
}

void main() {
    const uint column_tiles = (p.out_width + kLinearTileColumns - 1) / kLinearTileColumns;
    const uint tile = linear_workgroup();
    const uint tile_row = tile / column_tiles * TILE_ROWS;
    const uint tile_column = tile % column_tiles * kLinearTileColumns;
    if (tile_row >= p.rows) return;  // the whole workgroup leaves
    const uint lane = gl_LocalInvocationIndex;
    const uint width = p.in_width / 4, fetched_row = lane / QUADS;
    [[unroll]] for (uint i = 0; i < X_FETCHES; ++i)
        x_start[i] = (x_before() + min(tile_row + fetched_row + i * FETCH_ROWS, p.rows - 1)) * width;
    [[unroll]] for (uint i = 0; i < WEIGHT_FETCHES; ++i)
        weight_start[i] =
            (weight_before() + weight_row_of(tile_column + fetched_row + i * FETCH_ROWS, LANES_ALONG_COLUMNS)) * width;
    if (lane == 0) not_finite = 0;

    add_products(true);
    bool finite = true;
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            finite = finite && !isnan(sum[r][c]) && !isinf(sum[r][c]);
            sum[r][c] *= 1.0 / float(RAISE * RAISE);
        }
    }
    if (!finite) not_finite = 1;
    barrier();
    if (not_finite != 0) add_products(false);

    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const uint row = tile_row + lane / LANES_ALONG_COLUMNS + r * LANES_ALONG_ROWS;
        if (row >= p.rows) continue;
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c)
            FINISH_COLUMN(row, tile_column + lane % LANES_ALONG_COLUMNS, LANES_ALONG_COLUMNS, c, sum[r])
    }
}
