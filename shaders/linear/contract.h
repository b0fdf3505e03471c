// SPDX-License-Identifier: MIT
// Shared by the algorithms of linear: tile.comp and tile_vec4.comp (tiles), row.comp and row_vec4.comp (few rows), matrix.comp
// (cooperative matrices), tile_half.comp (float16 arithmetic), combine.comp (adds up the parts of a split depth); for weights in a format
// of their own tile_vec4.comp and matrix.comp with QUANTIZED, quantized_row.comp, and with activations of 8 bits quantized_tile_int8.comp and
// quantized_row.comp with INT8. The wing for devices that are CPUs adds cpu_devices/linear/contract.h. A shader has those of the bindings
// and constants that it uses.
#ifndef VKFORMER_SHADERS_LINEAR_H
#define VKFORMER_SHADERS_LINEAR_H
#include "lib/activation.h"
#include "lib/weight_format.h"
SHARED_BEGIN
const uint kLinearX = 0, kLinearWeight = 1, kLinearBias = 2, kLinearResidual = 3, kLinearY = 4;
const uint kLinearGain = 5;       // of the norm, where x is to be normed
const uint kLinearPartial = 6;    // float32 [splits, rows, out]: the sums of the parts of a split depth
const uint kLinearRowScales = 7;  // of halve_rows.comp

// Specialization constants.
const uint kLinearOperands = 1;      // bits of the operands that are present; an absent operand's binding is not touched
const uint kLinearEnd = 2;           // what follows the activation
const uint kLinearActivation = 3;    // one of lib/activation.h
const uint kLinearRows = 4;          // rows that a workgroup computes; tile_vec4.comp: that an invocation computes
const uint kLinearColumns = 5;       // columns that a workgroup of few rows computes
const uint kLinearSplits = 6;        // parts that the depth is cut into; 1: there are no partial sums
const uint kLinearWeightFormat = 7;  // one of lib/weight_format.h
// matrix.comp: the matrices' sizes; how many of them a subgroup owns along the rows and along the columns; subgroups of a workgroup along the
// rows and along the columns; the depth of a slice, a multiple of K and of 32; 1: operands are loaded a step ahead, and that depth is a
// multiple of 2 · K (tile_vec4.comp: a slice ahead)
const uint kLinearM = 8, kLinearN = 9, kLinearK = 10, kLinearRowSteps = 11, kLinearColumnSteps = 12;
const uint kLinearRowGrid = 15, kLinearColumnGrid = 16, kLinearSliceDepth = 17, kLinearAhead = 18;
// tile_vec4.comp and tile_half.comp: not 0 where the depth is a multiple of kLinearTileDepth, as that of weights in a format of their own is
const uint kLinearWholeSlices = 13;
const uint kLinearUnrolledQuads = 14;  // tile_vec4.comp: quads of a slice whose products are unrolled, 1 or 4

// kLinearOperands. The norm's bit: x is to be normed.
const uint kLinearBiasBit = 1, kLinearNormBit = 2, kLinearGainBit = 4;
// kLinearEnd: nothing, + residual, or · the product's other half
const uint kLinearEndNone = 0, kLinearEndResidual = 1, kLinearEndGate = 2;

const uint kLinearMaxRows = 8;  // that are few: row.comp, row_vec4.comp and the like; accumulators per invocation = rows · columns
// tile.comp and quantized_tile_int8.comp: the workgroup has 128 invocations, 16 along the columns and 8 along the rows; tiles of y and of the depth
const uint kLinearTileWorkgroup = 128, kLinearTileRows = 64, kLinearTileColumns = 64, kLinearTileDepth = 16;
// tile_vec4.comp has the same workgroup and columns; invocations along the rows
const uint kLinearVec4RowLanes = 8;
const uint kLinearCombineWorkgroup = 64;
// row.comp: columns per workgroup; its workgroup's size, which sizes the shared memory for the partial sums
const uint kLinearRowColumns = 4, kLinearRowWorkgroup = 64;
// row_vec4.comp and quantized_row.comp: the least and most invocations of a workgroup, a power of two; rows · columns, columns, and the
// floats of shared memory, of which each invocation has one for each of its sums, are at most (kernels/linear/rows.cpp)
const uint kLinearSumsWorkgroup = 64, kLinearMaxSumsWorkgroup = 256;
const uint kLinearMaxSums = 32, kLinearMaxColumns = 8, kLinearMaxParts = 4096;

// One product, or a batch of them: the group's z says which.
struct LinearPush {
    uint rows;       // of x and y
    uint in_width;   // elements per row of x and of weight
    uint out_width;  // rows of weight, elements per row of y (with a gate, twice as many)
    uint x_batch, weight_batch;  // rows from one product's x or weight to the next one's; 0: they share it
    float norm_eps, norm_gain_offset;  // with a norm: added to the mean square, and to every gain
    uint partial_before;  // floats that lie before the partial sums
};
SHARED_END
#endif
