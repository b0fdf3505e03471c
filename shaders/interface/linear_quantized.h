// SPDX-License-Identifier: MIT
// Shared by the algorithms of linear for weights of their own format: linear_quantized.comp (tiles), linear_quantized_row.comp
// (few rows), linear_quantized_direct.comp, linear_quantized_depth.comp and linear_quantized_broadcast.comp (CPUs), and the first two with activations of 8 bits: …_int8.comp. Bindings, push
// constants and the other specialization constants are those of linear.h.
#ifndef VKFORMER_SHADERS_LINEAR_QUANTIZED_H
#define VKFORMER_SHADERS_LINEAR_QUANTIZED_H
#include "linear.h"
#include "weight_format.h"
SHARED_BEGIN
const uint kLinearWeightFormat = 5;   // specialization constant: one of weight_format.h
const uint kQuantizedRowColumns = 6;  // specialization constant of the row shaders: columns that a workgroup computes
const uint kQuantizedSplits = 7;      // likewise, of linear_quantized.comp and linear_quantized_row.comp: as kLinearSplits

// linear_quantized.comp and …_int8.comp: the workgroup, 16 along the columns and 8 along the rows; tiles of y and of the depth.
// One invocation per column and one per row fetches the operands: 64 + 64 = 128.
const uint kQuantizedTileWorkgroup = 128, kQuantizedTileRows = 64, kQuantizedTileColumns = 64, kQuantizedTileDepth = 16;
// the row shaders: their workgroup; rows · columns is at most kQuantizedRowMaxSums, columns at most kQuantizedRowMaxColumns
const uint kQuantizedRowWorkgroup = 64, kQuantizedRowMaxColumns = 8, kQuantizedRowMaxSums = 32;
// linear_quantized_direct.comp: columns per invocation
const uint kQuantizedDirectColumns = 4;
// linear_quantized_depth.comp: elements of the depth that are taken at a time; its columns are those of linear_depth.comp
const uint kQuantizedDepth = 64;
SHARED_END
#endif
