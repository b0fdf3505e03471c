// SPDX-License-Identifier: MIT
/// Quantised weights: GGUF's block formats, which store some neighbouring elements of a row together with what scales them.
/// Layouts as the GGUF files of llama.cpp have them (ggml-common.h); every number is little-endian, `half` is IEEE binary16.
///
///     format  elements  bytes  contents                                                            element
///     q8_0        32      34   half d, int8 q[32]                                                  d · q
///     q4_0        32      18   half d, nibble q[32]                                                d · (q − 8)
///     q4_1        32      20   half d, half m, nibble q[32]                                        d · q + m
///     q5_0        32      22   half d, fifth bits of q (4 bytes), nibble q[32]                     d · (q − 16)
///     q5_1        32      24   half d, half m, fifth bits of q (4 bytes), nibble q[32]             d · q + m
///     iq4_nl      32      18   half d, nibble q[32]                                                d · kIq4Values[q]
///     mxfp4       32      17   exponent e (1 byte), nibble q[32]                                   2^(e − 128) · (kMxfp4Values[q] − 12)
///     iq4_xs     256     136   half d, upper bits of s (2 bytes), lower bits of s (4), nibble q[256]   d · (s − 32) · kIq4Values[q]
///     q2_k       256      84   nibble s[16] and t[16], two bits q[256], half d, half m              d · s · q − m · t
///     q3_k       256     110   third bits of q (32 bytes), two bits q[256], uint6 s[16], half d    d · (s − 32) · (q − 4)
///     q4_k       256     144   half d, half m, uint6 s[8] and t[8] (12 bytes), nibble q[256]       d · s · q − m · t
///     q5_k       256     176   half d, half m, s and t as q4_k, fifth bits of q (32 bytes), nibble q[256]   d · s · q − m · t
///     q6_k       256     210   nibble q[256], two upper bits of q (64 bytes), int8 s[16], half d   d · s · (q − 32)
///
/// mxfp4 is that of the OCP Microscaling Formats specification 1.0 (2023), where e = 255 is no number: here it is 2^127, as in ggml.
/// Files with e > 252, whose larger numbers are infinite as float32, are refused (finite.hpp).
/// s and t belong to 32 elements in q4_k, q5_k and iq4_xs, to 16 in q2_k, q3_k and q6_k. Bits do not lie in the order of their elements:
/// see block_format.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/tensor_data.hpp"

namespace vkformer {

/// Every format, in the order of this page.
inline constexpr std::array kBlockFormats = {DType::q8_0,   DType::q4_0,  DType::q4_1,   DType::q5_0, DType::q5_1,
                                             DType::iq4_nl, DType::mxfp4, DType::iq4_xs, DType::q2_k, DType::q3_k,
                                             DType::q4_k,   DType::q5_k,  DType::q6_k};

/// What a nibble of iq4_nl and iq4_xs stands for (ggml: kvalues_iq4nl).
inline constexpr std::array<std::int8_t, 16> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                           1,    13,   25,  38,  53,  69,  89,  113};

/// What a nibble of mxfp4 stands for, a float of four bits (E2M1): twice its number and 12, which makes a byte without a sign.
inline constexpr std::array<std::int8_t, 16> kMxfp4Values = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/// What the formats differ in whose blocks are 32 nibbles behind a scale.
struct NibbleFormat {
    bool has_minimum = false;     ///< a second half m, which is added
    bool has_fifth_bits = false;  ///< of the quants, bit i of a word that of element i
    bool has_table = false;       ///< the quants are indices into table()
    bool has_exponent = false;    ///< d is a byte, and stands for 2^(d − 128)

    // Where the parts of a block begin, bytes; it begins with d. Byte i of the nibbles holds those of elements i and i + 16.
    static constexpr std::size_t minimum() { return 2; }
    constexpr std::size_t fifth_bits() const { return has_minimum ? 4 : 2; }
    constexpr std::size_t nibbles() const { return has_exponent ? 1 : fifth_bits() + (has_fifth_bits ? 4 : 0); }
    constexpr std::size_t bytes() const { return nibbles() + 16; }

    constexpr int levels() const { return has_fifth_bits ? 32 : 16; }
    /// What is taken from the quants.
    constexpr int offset() const {
        if (has_exponent) return kMxfp4Values[0];
        return has_minimum || has_table ? 0 : levels() / 2;
    }
    constexpr const std::array<std::int8_t, 16>& table() const { return has_exponent ? kMxfp4Values : kIq4Values; }
    /// Whether numbers of the table have signs.
    constexpr bool is_signed() const { return has_table && !has_exponent; }
};
inline constexpr NibbleFormat kQ4_0Format{}, kQ4_1Format{.has_minimum = true}, kQ5_0Format{.has_fifth_bits = true},
    kQ5_1Format{.has_minimum = true, .has_fifth_bits = true}, kIq4NlFormat{.has_table = true},
    kMxfp4Format{.has_table = true, .has_exponent = true};

constexpr std::optional<NibbleFormat> nibble_format(DType dtype) noexcept {
    switch (dtype) {
    case DType::q4_0: return kQ4_0Format;
    case DType::q4_1: return kQ4_1Format;
    case DType::q5_0: return kQ5_0Format;
    case DType::q5_1: return kQ5_1Format;
    case DType::iq4_nl: return kIq4NlFormat;
    case DType::mxfp4: return kMxfp4Format;
    default: return std::nullopt;
    }
}

/// Where the halves of a block are that scale it, bytes: d (of mxfp4 a byte) and, of formats with a minimum, m.
struct BlockScales {
    std::size_t d;
    std::optional<std::size_t> m;
};
/// Requires is_quantized(dtype).
BlockScales block_scales(DType dtype) noexcept;

/// The elements of whole blocks. Every result is the exact product or difference above, rounded once to float (it needs no
/// rounding but for the difference). A scale that is NaN or infinite gives NaN and infinities.
/// Requires is_quantized(dtype), out.size() a multiple of block_elements(dtype), blocks.size() = tensor bytes of out.size().
void dequantize(DType dtype, std::span<const std::byte> blocks, std::span<float> out);

/// Whole blocks from `values`: q is rounded to nearest, the scales come from the extreme values and are refined by least squares
/// (but in q8_0).
/// A block with a value that is not finite gets scales that are not finite: it stays visible.
/// `importance`: how much the squared error of each value counts, finite and not negative; empty, or all 0 in a group of values that share
/// a scale: alike. Nothing changes by it in q8_0.
/// Requirements as for dequantize; importance.size() is values.size() or 0.
void quantize(DType dtype, std::span<const float> values, std::span<std::byte> blocks,
              std::span<const float> importance = {});

/// `data` in the format `dtype`, for Graph::weight. Errors: UnsupportedDtype (`data` holds no floats, `dtype` is no block format),
/// InvalidArgument (the rows are no multiple of the block, or the bytes do not fit the shape).
Result<TensorData> quantized(const TensorData& data, DType dtype);

}  // namespace vkformer
