// SPDX-License-Identifier: MIT
// Shared by the algorithms of linear: linear.comp and linear_quads.comp (tiles), linear_row.comp and linear_row_quads.comp (few
// rows), linear_direct.comp, linear_depth.comp and linear_broadcast.comp (CPUs), linear_coopmat.comp (cooperative matrices),
// linear_halves.comp (float16 arithmetic).
#ifndef VKFORMER_SHADERS_LINEAR_H
#define VKFORMER_SHADERS_LINEAR_H
#include "activation.h"
#include "wide.h"
SHARED_BEGIN
const uint kLinearX = 0, kLinearWeight = 1, kLinearBias = 2, kLinearResidual = 3, kLinearY = 4;
const uint kLinearPartial = 5;  // of those that know kLinearSplits: float32 [splits, rows, out]
const uint kLinearTaken = 5;    // of those that take tiles (lib/tiles.glsl): one word
const uint kLinearGain = kLinearResidual;  // of the norm: with one there is no residual
// Specialization constants: bits of the operands that are present; an absent operand's binding is not touched.
const uint kLinearOperands = 1;
const uint kLinearBiasBit = 1, kLinearNormBit = 2, kLinearGainBit = 4;  // the second: x is to be normed
const uint kLinearEnd = 2;  // what follows the activation: nothing, + residual, or · the product's other half
const uint kLinearEndNone = 0, kLinearEndResidual = 1, kLinearEndGate = 2;
const uint kLinearActivation = 3;    // one of interface/activation.h
const uint kLinearRowsConstant = 4;  // rows that a workgroup computes: 1 to kLinearMaxRows; those of few rows and the two of broadcasts have it

const uint kLinearMaxRows = 8;  // of linear_row and linear_direct: accumulators per invocation = rows · columns
// linear.comp: the workgroup has 128 invocations, 16 along the columns and 8 along the rows; tiles of y and of the depth
const uint kLinearTileWorkgroup = 128, kLinearTileRows = 64, kLinearTileColumns = 64, kLinearTileDepth = 16;
// linear_quads.comp has the same workgroup and columns. Specialization constant: rows per invocation, of which there are 8 along the rows.
const uint kLinearQuadsRows = 4, kLinearQuadsRowLanes = 8;
// linear_quads.comp, linear_row_quads.comp, linear_coopmat.comp, linear_combine.comp: parts that the depth is cut into (kQuantizedSplits is that of
// others). 1: there are no partial sums.
const uint kLinearSplits = 5;
const uint kLinearCombineWorkgroup = 64;
// linear_row.comp: columns per workgroup; its workgroup's size, which sizes the shared memory for the partial sums
const uint kLinearRowColumns = 4, kLinearRowWorkgroup = 64;
// linear_direct.comp: columns per invocation
const uint kLinearDirectColumns = 4;
// linear_depth.comp: most rows, and columns of a tile. Specialization constant: words of the depth that are taken at a time, either of two.
const uint kLinearDepthMaxRows = 4, kLinearDepthColumns = 16;
const uint kLinearDepthWordsConstant = 5, kLinearDepthWords = 16, kLinearDepthManyWords = 64;
// linear_broadcast.comp, and linear_quantized_broadcast.comp with words of 32 bits: most rows of a workgroup, columns per lane, and the
// elements of a row that are loaded at a time
const uint kBroadcastMaxRows = 32, kBroadcastColumns = 4, kBroadcastDepth = 8;
// linear_quantized_broadcast.comp with words of 64 bits; a larger tile is slower there, but a gate needs pairs of columns
const uint kQuantizedBroadcastRows = 16, kQuantizedBroadcastColumns = 3, kQuantizedBroadcastGatedColumns = 4, kQuantizedBroadcastDepth = 16;
// linear_coopmat.comp: subgroups of a workgroup along the columns; depth of a tile. Specialization constants: the matrices' sizes, how many of
// them a subgroup owns along the rows and as many along the columns, and subgroups along the rows.
const uint kLinearMatrixColumnGrid = 2, kLinearMatrixDepth = 32;
const uint kLinearMatrixM = 6, kLinearMatrixN = 7, kLinearMatrixK = 8, kLinearMatrixSteps = 9, kLinearMatrixRowGrid = 10;
// For weights of their own format, which is one more specialization constant; the binding of the rows' scales (halve_rows.comp).
const uint kLinearMatrixWeightFormat = 11;
const uint kLinearRowScales = 6;
// One product, or a batch of them: the group's z says which.
struct LinearPush {
    uint rows;       // of x and y
    uint in_width;   // elements per row of x and of weight
    uint out_width;  // rows of weight, elements per row of y (with a gate, twice as many)
    uint x_batch, weight_batch;  // rows from one product's x or weight to the next one's; 0: they share it
    float norm_eps, norm_gain_offset;  // with a norm: added to the mean square, and to every gain
    uint partial_before;  // floats that lie before the partial sums
};
// Push constants behind it, of the shaders with VECTORS: the addresses (64 bits) of x, weight and gain, and of the
// memory of lib/staged.glsl.
const uint kLinearXAddress = 32, kLinearWeightAddress = 40, kLinearGainAddress = 48, kLinearStagedAddress = 56;
SHARED_END
#endif
