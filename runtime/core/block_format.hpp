// SPDX-License-Identifier: MIT
/// Quantised weights: GGUF's block formats, which store some neighbouring elements of a row together with what scales them.
/// Layouts as the GGUF files of llama.cpp have them (ggml-common.h); every number is little-endian, `half` is IEEE binary16.
///
///     format  elements  bytes  contents                                                            element
///     q8_0        32      34   half d, int8 q[32]                                                  d · q
///     q4_0        32      18   half d, nibble q[32]                                                d · (q − 8)
///     q4_k       256     144   half d, half m, uint6 s[8] and t[8] (12 bytes), nibble q[256]       d · s · q − m · t
///     q5_k       256     176   half d, half m, s and t as q4_k, fifth bits of q (32 bytes), nibble q[256]   d · s · q − m · t
///     q6_k       256     210   nibble q[256], two upper bits of q (64 bytes), int8 s[16], half d   d · s · (q − 32)
///
/// s and t belong to 32 elements in q4_k and q5_k, s to 16 in q6_k. Nibbles do not lie in the order of their elements: see
/// block_format.cpp.
#pragma once

#include <cstddef>
#include <span>

#include "core/tensor_data.hpp"

namespace vkformer {

/// The elements of whole blocks. Every result is the exact product or difference above, rounded once to float (it needs no
/// rounding but for the difference). A scale that is NaN or infinite gives NaN and infinities.
/// Requires is_quantized(dtype), out.size() a multiple of block_elements(dtype), blocks.size() = tensor bytes of out.size().
void dequantize(DType dtype, std::span<const std::byte> blocks, std::span<float> out);

/// Whole blocks from `values`: q is rounded to nearest, the scales come from the extreme values and are refined by least squares
/// (but in q8_0).
/// A block with a value that is not finite gets scales that are not finite: it stays visible.
/// Requirements as for dequantize.
void quantize(DType dtype, std::span<const float> values, std::span<std::byte> blocks);

/// `data` in the format `dtype`, for Graph::weight. Errors: UnsupportedDtype (`data` holds no floats, `dtype` is no block format),
/// InvalidArgument (the rows are no multiple of the block, or the bytes do not fit the shape).
Result<TensorData> quantized(const TensorData& data, DType dtype);

}  // namespace vkformer
