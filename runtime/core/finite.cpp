// SPDX-License-Identifier: MIT
#include "core/finite.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/block_format.hpp"

namespace vkformer {
namespace {

constexpr std::uint32_t kExponent32 = 0x7F800000;
constexpr std::uint16_t kExponent16 = 0x7C00, kExponentBfloat = 0x7F80;
constexpr std::uint8_t kLargestExponent = 252;  // of mxfp4: 12 · 2^(253 − 128) is infinite

/// Number i of values that lie `stride` bytes apart, from `offset` on; they may be misaligned.
template <class Bits>
Bits bits_at(std::span<const std::byte> bytes, std::size_t i, std::size_t stride, std::size_t offset) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i * stride + offset, sizeof bits);
    return bits;
}

/// The first of them, from number `first` on, whose exponent is all ones.
template <class Bits>
std::optional<std::uint64_t> first_of(std::span<const std::byte> bytes, Bits exponent, std::size_t stride,
                                      std::size_t offset, std::size_t first = 0) {
    for (std::size_t i = first; i < bytes.size() / stride; ++i)
        if ((bits_at<Bits>(bytes, i, stride, offset) & exponent) == exponent) return i;
    return {};
}

/// The first block of mxfp4, by its number, whose exponent stands for infinite numbers, or for none.
std::optional<std::uint64_t> first_too_large(std::span<const std::byte> blocks, std::size_t stride) {
    for (std::size_t i = 0; i < blocks.size() / stride; ++i)
        if (std::to_integer<std::uint8_t>(blocks[i * stride]) > kLargestExponent) return i;
    return {};
}

/// The first double that is no float32 either.
std::optional<std::uint64_t> first_beyond_float(std::span<const std::byte> bytes) {
    for (std::size_t i = 0; i < bytes.size() / sizeof(double); ++i)
        if (!(std::abs(bits_at<double>(bytes, i, sizeof(double), 0)) <= std::numeric_limits<float>::max())) return i;
    return {};
}

/// As first_of, of neighbours, eight bytes at a time: an exponent of ones carries into the bit of the sign when its lowest bit is added.
template <class Bits>
std::optional<std::uint64_t> first_of_neighbours(std::span<const std::byte> bytes, Bits exponent) {
    constexpr std::size_t kChunk = 4096, kWord = sizeof(std::uint64_t);
    const auto lowest = static_cast<Bits>(exponent & (~exponent + 1));
    std::uint64_t exponents = 0, ones = 0, signs = 0;
    for (std::size_t bit = 0; bit < 64; bit += 8 * sizeof(Bits)) {
        exponents |= std::uint64_t{exponent} << bit;
        ones |= std::uint64_t{lowest} << bit;
        signs |= std::uint64_t{1} << (bit + 8 * sizeof(Bits) - 1);
    }
    std::size_t at = 0;
    for (; at + kChunk <= bytes.size(); at += kChunk) {
        std::uint64_t carries = 0;
        for (std::size_t i = 0; i < kChunk; i += kWord) {
            std::uint64_t word;
            std::memcpy(&word, bytes.data() + at + i, kWord);
            carries |= (word & exponents) + ones;
        }
        if (carries & signs) break;
    }
    return first_of(bytes, exponent, sizeof(Bits), 0, at / sizeof(Bits));
}

}  // namespace

std::optional<std::uint64_t> first_not_finite(DType dtype, std::span<const std::byte> bytes) {
    if (dtype == DType::f32) return first_of_neighbours(bytes, kExponent32);
    if (dtype == DType::bf16) return first_of_neighbours(bytes, kExponentBfloat);
    if (dtype == DType::f16) return first_of_neighbours(bytes, kExponent16);
    if (dtype == DType::f64) return first_beyond_float(bytes);
    const std::size_t block = static_cast<std::size_t>(bytes_of(dtype, block_elements(dtype)));
    const BlockScales scales = block_scales(dtype);
    auto found = dtype == DType::mxfp4 ? first_too_large(bytes, block) : first_of(bytes, kExponent16, block, scales.d);
    if (scales.m) {
        const auto minimum = first_of(bytes, kExponent16, block, *scales.m);
        if (minimum && (!found || *minimum < *found)) found = minimum;
    }
    if (found) *found *= block_elements(dtype);
    return found;
}

}  // namespace vkformer
