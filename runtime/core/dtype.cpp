// SPDX-License-Identifier: MIT
#include "core/dtype.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/block_format.hpp"

namespace vkformer {
namespace {

static_assert(std::endian::native == std::endian::little, "the file formats and Vulkan are read in place");

template <class T>
T element_at(std::span<const std::byte> bytes, std::size_t index) noexcept {
    T value;
    std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
    return value;
}

/// Through floats, a bounded number of blocks at a time.
template <class Out>
void convert_blocks(DType dtype, std::span<const std::byte> blocks, std::span<Out> out) {
    constexpr std::size_t kChunk = 4096;  // elements; whole blocks of every format
    std::array<float, kChunk> floats;
    for (std::size_t first = 0; first < out.size(); first += kChunk) {
        const std::size_t count = std::min(kChunk, out.size() - first);
        dequantize(dtype, blocks.subspan(bytes_of(dtype, first), bytes_of(dtype, count)),
                   std::span(floats).first(count));
        std::copy_n(floats.begin(), count, out.begin() + static_cast<std::ptrdiff_t>(first));
    }
}

template <class Out>
Result<void> convert_floats(DType dtype, std::span<const std::byte> bytes, std::size_t first, std::span<Out> out) {
    assert(bytes_of(dtype, first + out.size()) <= bytes.size());
    const auto fill = [&](auto read) {
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<Out>(read(first + i));
    };
    switch (dtype) {
    case DType::f64: fill([&](std::size_t i) { return element_at<double>(bytes, i); }); break;
    case DType::f32: fill([&](std::size_t i) { return element_at<float>(bytes, i); }); break;
    case DType::f16: fill([&](std::size_t i) { return half_to_float(element_at<std::uint16_t>(bytes, i)); }); break;
    case DType::bf16: fill([&](std::size_t i) { return bfloat_to_float(element_at<std::uint16_t>(bytes, i)); }); break;
    case DType::i64: fill([&](std::size_t i) { return element_at<std::int64_t>(bytes, i); }); break;
    case DType::i32: fill([&](std::size_t i) { return element_at<std::int32_t>(bytes, i); }); break;
    case DType::i16: fill([&](std::size_t i) { return element_at<std::int16_t>(bytes, i); }); break;
    case DType::i8: fill([&](std::size_t i) { return element_at<std::int8_t>(bytes, i); }); break;
    case DType::u8:
    case DType::boolean: fill([&](std::size_t i) { return element_at<std::uint8_t>(bytes, i); }); break;
    case DType::f8_e4m3:
        fill([&](std::size_t i) { return f8_e4m3_to_float(element_at<std::uint8_t>(bytes, i)); });
        break;
    case DType::q8_0:
    case DType::q4_0:
    case DType::q4_k:
    case DType::q5_k:
    case DType::q6_k:
    case DType::q4_1:
    case DType::q5_0:
    case DType::q5_1:
    case DType::iq4_nl:
    case DType::iq4_xs:
    case DType::q2_k:
    case DType::q3_k:
    case DType::mxfp4:
        convert_blocks(dtype, bytes.subspan(bytes_of(dtype, first), bytes_of(dtype, out.size())), out);
        break;
    }
    return {};
}

}  // namespace

std::string_view to_string(DType dtype) noexcept {
    switch (dtype) {
    case DType::f64: return "f64";
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::i64: return "i64";
    case DType::i32: return "i32";
    case DType::i16: return "i16";
    case DType::i8: return "i8";
    case DType::u8: return "u8";
    case DType::boolean: return "bool";
    case DType::f8_e4m3: return "f8_e4m3";
    case DType::q8_0: return "q8_0";
    case DType::q4_0: return "q4_0";
    case DType::q4_k: return "q4_k";
    case DType::q5_k: return "q5_k";
    case DType::q6_k: return "q6_k";
    case DType::q4_1: return "q4_1";
    case DType::q5_0: return "q5_0";
    case DType::q5_1: return "q5_1";
    case DType::iq4_nl: return "iq4_nl";
    case DType::iq4_xs: return "iq4_xs";
    case DType::q2_k: return "q2_k";
    case DType::q3_k: return "q3_k";
    case DType::mxfp4: return "mxfp4";
    }
    return "unknown";
}

std::size_t block_elements(DType dtype) noexcept {
    switch (dtype) {
    case DType::q8_0:
    case DType::q4_0:
    case DType::q4_1:
    case DType::q5_0:
    case DType::q5_1:
    case DType::iq4_nl:
    case DType::mxfp4: return 32;
    case DType::q4_k:
    case DType::q5_k:
    case DType::q6_k:
    case DType::iq4_xs:
    case DType::q2_k:
    case DType::q3_k: return 256;
    default: return 1;
    }
}

std::size_t block_bytes(DType dtype) noexcept {
    switch (dtype) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16: return 2;
    case DType::i8:
    case DType::u8:
    case DType::boolean:
    case DType::f8_e4m3: return 1;
    case DType::q8_0: return 34;
    case DType::q4_0:
    case DType::q4_1:
    case DType::q5_0:
    case DType::q5_1:
    case DType::iq4_nl:
    case DType::mxfp4: return nibble_format(dtype)->bytes();
    case DType::q4_k: return 144;
    case DType::q5_k: return 176;
    case DType::q6_k: return 210;
    case DType::iq4_xs: return 136;
    case DType::q2_k: return 84;
    case DType::q3_k: return 110;
    }
    return 0;
}

std::size_t element_bytes(DType dtype) noexcept {
    assert(!is_quantized(dtype));
    return block_bytes(dtype);
}

std::uint64_t bytes_of(DType dtype, std::uint64_t elements) noexcept {
    assert(elements % block_elements(dtype) == 0);
    return elements / block_elements(dtype) * block_bytes(dtype);
}

bool is_quantized(DType dtype) noexcept { return block_elements(dtype) > 1; }

bool is_real(DType dtype) noexcept { return is_float(dtype) || is_quantized(dtype); }

bool is_weight_only(DType dtype) noexcept { return dtype == DType::bf16 || is_quantized(dtype); }

bool is_float(DType dtype) noexcept {
    return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

float f8_e4m3_to_float(std::uint8_t bits) noexcept {
    const int exponent = (bits >> 3) & 0xF, mantissa = bits & 7;
    if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
    const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                          : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
    return bits & 0x80 ? -magnitude : magnitude;
}

float half_to_float(std::uint16_t half) noexcept {
    const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
    const std::uint32_t exponent = (half >> 10) & 0x1Fu;
    const std::uint32_t mantissa = half & 0x3FFu;
    if (exponent == 0) {  // zero or subnormal: mantissa · 2^-24
        const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
        return sign ? -magnitude : magnitude;
    }
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

std::uint16_t float_to_half(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return static_cast<std::uint16_t>(sign | 0x7E00u);  // NaN
    if (magnitude >= 0x477FF000u)
        return static_cast<std::uint16_t>(sign | 0x7C00u);  // 65520 and above round to infinity
    if (magnitude < 0x38800000u) {                          // below 2^-14: subnormal
        const float scaled = std::ldexp(std::bit_cast<float>(magnitude), 24);
        return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(std::nearbyint(scaled)));
    }
    const std::uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

float bfloat_to_float(std::uint16_t bfloat) noexcept { return std::bit_cast<float>(std::uint32_t{bfloat} << 16); }

std::uint16_t float_to_bfloat(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);  // quiet, so that it stays one
    return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

Result<void> convert(DType dtype, std::span<const std::byte> bytes, std::size_t first, std::span<float> out) {
    return convert_floats(dtype, bytes, first, out);
}

Result<void> convert(DType dtype, std::span<const std::byte> bytes, std::size_t first, std::span<double> out) {
    return convert_floats(dtype, bytes, first, out);
}

Result<void> convert(DType dtype, std::span<const std::byte> bytes, std::size_t first, std::span<std::int32_t> out) {
    assert(bytes_of(dtype, first + out.size()) <= bytes.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
        std::int64_t value = 0;
        switch (dtype) {
        case DType::i64: value = element_at<std::int64_t>(bytes, first + i); break;
        case DType::i32: value = element_at<std::int32_t>(bytes, first + i); break;
        case DType::i16: value = element_at<std::int16_t>(bytes, first + i); break;
        case DType::i8: value = element_at<std::int8_t>(bytes, first + i); break;
        case DType::u8:
        case DType::boolean: value = element_at<std::uint8_t>(bytes, first + i); break;
        default:
            return Error{ErrorCode::UnsupportedDtype,
                         "expected integers (int64, int32, …), found " + std::string(to_string(dtype))};
        }
        if (value < std::numeric_limits<std::int32_t>::min() || value > std::numeric_limits<std::int32_t>::max())
            return Error{ErrorCode::InvalidArgument, "integer " + std::to_string(value) + " at element " +
                                                         std::to_string(first + i) + " does not fit into 32 bits"};
        out[i] = static_cast<std::int32_t>(value);
    }
    return {};
}

}  // namespace vkformer
