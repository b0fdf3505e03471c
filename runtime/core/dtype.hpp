// SPDX-License-Identifier: MIT
/// Element types and their conversions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "vkformer/result.hpp"

namespace vkformer {

/// Graphs compute in f32 and f16 (float values) and i32 (tokens, positions, lengths). bf16 and the block formats of GGUF files
/// (q8_0 …, see core/block_format.hpp) are for weights; the others occur in files only.
enum class DType : std::uint8_t {
    f64,
    f32,
    f16,
    bf16,
    i64,
    i32,
    i16,
    i8,
    u8,
    boolean,
    f8_e4m3,
    q8_0,
    q4_0,
    q4_k,
    q5_k,
    q6_k,
    q4_1,
    q5_0,
    q5_1,
    iq4_nl,
    iq4_xs,
    q2_k,
    q3_k,
    mxfp4
};

/// f8_e4m3: floats of a byte without infinities, whose matrices in files have scales beside them ("FP8 Formats for Deep Learning",
/// Micikevicius et al. 2022, section 3).
/// "f32", "f16", "q8_0", …
std::string_view to_string(DType dtype) noexcept;
/// Every element is a number of its own, which it is without a scale: f64, f32, f16 or bf16.
bool is_float(DType dtype) noexcept;
/// A block format: some neighbouring elements of a row are stored together.
bool is_quantized(DType dtype) noexcept;
/// Its elements are real numbers, however they are stored: is_float or is_quantized.
bool is_real(DType dtype) noexcept;
/// What graphs compute nothing in: bf16 and the block formats. Weights may be stored so, and key/value caches as q8_0.
bool is_weight_only(DType dtype) noexcept;
/// Requires !is_quantized(dtype).
std::size_t element_bytes(DType dtype) noexcept;
/// Elements and bytes of what is stored together: a block, or a single element.
std::size_t block_elements(DType dtype) noexcept;
std::size_t block_bytes(DType dtype) noexcept;
/// Bytes of `elements` elements. Requires a multiple of block_elements(dtype).
std::uint64_t bytes_of(DType dtype, std::uint64_t elements) noexcept;

/// IEEE 754 binary16. Conversion from float rounds to nearest even; overflow gives infinity, NaN stays NaN.
float half_to_float(std::uint16_t half) noexcept;
std::uint16_t float_to_half(float value) noexcept;
/// bfloat16, the upper half of a float. Conversion from float rounds to nearest even; NaN stays NaN.
float bfloat_to_float(std::uint16_t bfloat) noexcept;
/// E4M3: −448 to 448, the least above 0 is 2^-9; 0x7F and 0xFF are NaN.
float f8_e4m3_to_float(std::uint8_t bits) noexcept;
std::uint16_t float_to_bfloat(float value) noexcept;

/// Elements `first`, `first + 1`, … of the little-endian array `bytes` of type `dtype`, converted to the output's type.
/// Integers that int32 cannot hold and floats asked for as integers are errors (UnsupportedDtype, InvalidArgument).
/// `bytes` may be misaligned. Requires (first + out.size()) elements in `bytes`; of a block format, whole blocks.
Result<void> convert(DType dtype, std::span<const std::byte> bytes, std::size_t first, std::span<float> out);
Result<void> convert(DType dtype, std::span<const std::byte> bytes, std::size_t first, std::span<double> out);
Result<void> convert(DType dtype, std::span<const std::byte> bytes, std::size_t first, std::span<std::int32_t> out);

}  // namespace vkformer
