// SPDX-License-Identifier: MIT
// What the algorithms of linear have in common: constants, the operands beside x and weight, and the epilogue
//   y[row, column] = f(sum + bias[column]) + residual[row, column]
// or, in the shaders that know of it, with a gate, h = out / 2 and both sums with their bias,
//   y[row, column] = f(sum[column]) · sum[h + column].
// x may be the product's input before its RMS norm, (gain + gain_offset) · x / sqrt(mean(x²) + eps) over a row, in the shaders that know of
// it: they multiply by the gains as they load x, add up the squares on the way, and scale the sums.
// bias has the storage of x and weight; residual and y have it too or, with TO_F32, are float.
#ifndef VKFORMER_LINEAR_EPILOGUE_GLSL
#define VKFORMER_LINEAR_EPILOGUE_GLSL
#include "linear/contract.h"
#include "lib/activation.glsl"
#include "lib/grid.glsl"
#include "lib/numbers.glsl"
#include "lib/storage.glsl"

#ifdef TO_F32
#define RESULT float
#define RESULT_BITS float
#define RESULT_STORED writeonly
#define LOAD_RESULT(buffer, i) buffer[i]
#define STORE_RESULT(buffer, i, value) buffer[i] = (value)
#elif defined(F16) && (defined(WIDE) || defined(VECTORS))  // of devices that are CPUs
#include "lib/halves.glsl"
#define RESULT ELEMENT
#define RESULT_BITS uint16_t
#define RESULT_STORED STORED
#define LOAD_RESULT(buffer, i) LOAD(buffer, i)
#define STORE_RESULT(buffer, i, value) buffer[i] = uint16_t(rounded_half(value))
#else
#define RESULT ELEMENT
#define RESULT_BITS ELEMENT
#define RESULT_STORED STORED
#define LOAD_RESULT(buffer, i) LOAD(buffer, i)
#define STORE_RESULT(buffer, i, value) STORE(buffer, i, value)
#endif

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kLinearOperands) const uint OPERANDS = 0;
const uint HAS_BIAS = OPERANDS & kLinearBiasBit;
const bool HAS_NORM = (OPERANDS & kLinearNormBit) != 0, HAS_GAIN = (OPERANDS & kLinearGainBit) != 0;
layout(constant_id = kLinearEnd) const uint END = kLinearEndNone;
layout(constant_id = kLinearActivation) const uint ACTIVATION = kActivationNone;
#ifdef VECTORS
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(push_constant) uniform Push {
    PART_OF_GRID
    LinearPush p;
    layout(offset = kCpuLinearXAddress) uint64_t x_address;
    layout(offset = kCpuLinearWeightAddress) uint64_t weight_address;
#ifdef STAGED
    layout(offset = kCpuLinearGainAddress) uint64_t gain_address;
    layout(offset = kCpuLinearStagedAddress) uint64_t staged_address;
#endif
};
#else
layout(push_constant) uniform Push { PART_OF_GRID LinearPush p; };
#endif
layout(std430, binding = kLinearBias) readonly buffer Bias { ELEMENT bias[]; };
layout(std430, binding = kLinearResidual) readonly buffer Residual { RESULT residual[]; };
layout(std430, binding = kLinearY) RESULT_STORED buffer Y { RESULT_BITS y[]; };

// Rows that lie before those of this workgroup's product.
uint x_before() { return workgroup_plane() * p.x_batch; }
uint weight_before() { return workgroup_plane() * p.weight_batch; }
uint row_of_x(uint row) { return x_before() + row; }

// The same of a weight in a format of its own, which is one product's, and all rows of that.
uint packed_before() { return 0; }
uint packed_rows() { return p.out_width; }

// The rows of a product from those of tile `tile` on, first … end − 1.
uvec2 rows_of_tile(uint tile, uint tile_rows) { return uvec2(tile * tile_rows, p.rows); }

// What the sums of a row are to be multiplied by, given the sum of its squares.
float norm_scale(float squares) { return HAS_NORM ? inversesqrt(squares / float(p.in_width) + p.norm_eps) : 1.0; }

void finish(uint row, uint column, float sum) {
    if (HAS_BIAS == 1) sum += LOAD(bias, column);
    sum = activated(ACTIVATION, sum);
    const uint i = (workgroup_plane() * p.rows + row) * p.out_width + column;
    if (END == kLinearEndResidual) sum += LOAD_RESULT(residual, i);
    STORE_RESULT(y, i, sum);
}

// With a gate the columns that a shader counts come in turns, `turn` of the gate and as many of the other half, so that both sums of an
// element of y meet in one invocation. The row of weight of such a column, which past the end repeats the last of its half; without a
// gate, that of the column.
uint weight_row_of(uint column, uint turn) {
    if (END != kLinearEndGate) return min(column, p.out_width - 1);
    const uint half_width = p.out_width / 2;
    return min(column / (2 * turn) * turn + column % turn, half_width - 1) + column / turn % 2 * half_width;
}

// Which column of y such a column of the gate makes; not less than half the width: none.
uint gated_column(uint column, uint turn) { return column / (2 * turn) * turn + column % turn; }

// The sums of `column`, of the gate, and column + turn.
void finish_gated(uint row, uint column, uint turn, float gate, float other) {
    const uint half_width = p.out_width / 2, at = gated_column(column, turn);
    if (at >= half_width) return;
    if (HAS_BIAS == 1) {
        gate += LOAD(bias, at);
        other += LOAD(bias, half_width + at);
    }
    STORE_RESULT(y, row * half_width + at, activated(ACTIVATION, gate) * other);
}

// An invocation has the columns first, first + turn, … `count` (even) of them: finishes the one at c, whose sum is sums[c]. FINISH and FINISH_GATED:
// what is done with the sums (linear/split_depth.glsl has others).
#define FINISH finish
#define FINISH_GATED finish_gated
#define FINISH_COLUMN(row, first, turn, c, sums)                                                  \
    if (END == kLinearEndGate) {                                                                  \
        if ((c) % 2 == 0) FINISH_GATED(row, (first) + (c) * (turn), turn, sums[c], sums[(c) + 1]); \
    } else if ((first) + (c) * (turn) < p.out_width) {                                            \
        FINISH(row, (first) + (c) * (turn), sums[c]);                                             \
    }
#endif
