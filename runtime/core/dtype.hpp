// SPDX-License-Identifier: MIT
/// Element types and their conversions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "vkformer/result.hpp"

namespace vkformer {

/// Graphs compute in f32 and f16 (float values) and i32 (tokens, positions, lengths). The others occur in files only.
enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };

/// "f32", "f16", …
std::string_view to_string(DType dtype) noexcept;
std::size_t element_bytes(DType dtype) noexcept;
bool is_float(DType dtype) noexcept;

/// IEEE 754 binary16. Conversion from float rounds to nearest even; overflow gives infinity, NaN stays NaN.
float half_to_float(std::uint16_t half) noexcept;
std::uint16_t float_to_half(float value) noexcept;

/// Elements `first`, `first + 1`, … of the little-endian array `bytes` of type `dtype`, converted to the output's type.
/// Integers that int32 cannot hold and floats asked for as integers are errors (UnsupportedDtype, InvalidArgument).
/// `bytes` may be misaligned. Requires (first + out.size()) · element_bytes(dtype) ≤ bytes.size().
Result<void> convert(DType dtype, std::span<const std::byte> bytes, std::size_t first, std::span<float> out);
Result<void> convert(DType dtype, std::span<const std::byte> bytes, std::size_t first, std::span<double> out);
Result<void> convert(DType dtype, std::span<const std::byte> bytes, std::size_t first, std::span<std::int32_t> out);

}  // namespace vkformer
