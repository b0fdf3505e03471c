// SPDX-License-Identifier: MIT
#include "core/block_format.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace vkformer {
namespace {

using Bytes = std::span<const std::byte>;
using Floats = std::span<const float>;

// Where the parts of a block begin, bytes.
struct Q8_0 {
    static constexpr std::size_t d = 0, quants = 2;
};
struct Q4_0 {
    static constexpr std::size_t d = 0, nibbles = 2, pair = 16;  // pair: see nibble_at
};
struct Q4_K {
    static constexpr std::size_t d = 0, m = 2, scales = 4, nibbles = 16, pair = 32;
    static constexpr int levels = 15;
};
struct Q5_K {
    static constexpr std::size_t d = 0, m = 2, scales = 4, fifth_bits = 16, nibbles = 48, pair = 32;
    static constexpr int levels = 31;
};
struct Q6_K {
    static constexpr std::size_t nibbles = 0, upper_bits = 128, scales = 192, d = 208, pair = 64;
};

constexpr std::size_t kGroup = 32;   // elements of a scale in q4_k and q5_k
constexpr std::size_t kGroup6 = 16;  // in q6_k
constexpr std::size_t kGroups = 8;   // of a block of q4_k and q5_k

std::uint32_t byte_at(Bytes block, std::size_t i) { return std::to_integer<std::uint32_t>(block[i]); }
float signed_byte_at(Bytes block, std::size_t i) { return static_cast<std::int8_t>(byte_at(block, i)); }

float half_at(Bytes block, std::size_t i) {
    return half_to_float(static_cast<std::uint16_t>(byte_at(block, i) | byte_at(block, i + 1) << 8));
}

void put_half(std::span<std::byte> block, std::size_t i, float value) {
    const std::uint16_t half = float_to_half(value);
    std::memcpy(block.data() + i, &half, sizeof(half));
}

float rounded_to_half(float value) { return half_to_float(float_to_half(value)); }

/// A byte holds the nibbles of two elements that lie `pair` elements apart, the first one's in its lower half.
struct NibblePlace {
    std::size_t byte;
    std::uint32_t shift;
    NibblePlace(std::size_t element, std::size_t pair)
        : byte(element / (2 * pair) * pair + element % pair), shift(element / pair % 2 * 4) {}
};

std::uint32_t nibble_at(Bytes block, std::size_t nibbles, std::size_t pair, std::size_t element) {
    const NibblePlace place(element, pair);
    return byte_at(block, nibbles + place.byte) >> place.shift & 15u;
}

void put_bits(std::span<std::byte> block, std::size_t i, int bits, std::uint32_t shift) {
    block[i] |= static_cast<std::byte>(static_cast<std::uint32_t>(bits) << shift);
}

void put_nibble(std::span<std::byte> block, std::size_t nibbles, std::size_t pair, std::size_t element, int value) {
    const NibblePlace place(element, pair);
    put_bits(block, nibbles + place.byte, value & 15, place.shift);
}

/// The two 6-bit numbers of a group. Those of groups 0 … 3 fill the lower 6 bits of bytes 0 … 3 and 4 … 7; those of groups
/// 4 … 7 have their lower 4 bits in bytes 8 … 11 and their upper 2 bits above the others.
struct GroupScales {
    int s = 0, t = 0;
};

GroupScales group_scales(Bytes scales, std::size_t group) {
    const auto at = [&](std::size_t i) { return static_cast<int>(byte_at(scales, i)); };
    if (group < 4) return {at(group) & 63, at(group + 4) & 63};
    return {(at(group + 4) & 15) | (at(group - 4) >> 6) << 4, at(group + 4) >> 4 | (at(group) >> 6) << 4};
}

void put_group_scales(std::span<std::byte> scales, std::size_t group, GroupScales value) {
    if (group < 4) {
        put_bits(scales, group, value.s, 0);
        put_bits(scales, group + 4, value.t, 0);
        return;
    }
    put_bits(scales, group + 4, (value.s & 15) | (value.t & 15) << 4, 0);
    put_bits(scales, group - 4, value.s >> 4, 6);
    put_bits(scales, group, value.t >> 4, 6);
}

// ---- from blocks to floats; `out` is one block

void dequantize_q8_0(Bytes block, std::span<float> out) {
    const float d = half_at(block, Q8_0::d);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = d * signed_byte_at(block, Q8_0::quants + i);
}

void dequantize_q4_0(Bytes block, std::span<float> out) {
    const float d = half_at(block, Q4_0::d);
    for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = d * (static_cast<float>(nibble_at(block, Q4_0::nibbles, Q4_0::pair, i)) - 8);
}

/// q4_k and q5_k; `quant(i)` gives q of element i.
template <class Layout>
void dequantize_with_minimum(Bytes block, auto&& quant, std::span<float> out) {
    const float d = half_at(block, Layout::d), m = half_at(block, Layout::m);
    for (std::size_t group = 0; group < kGroups; ++group) {
        const auto [s, t] = group_scales(block.subspan(Layout::scales), group);
        const float scale = d * static_cast<float>(s), minimum = m * static_cast<float>(t);
        for (std::size_t i = group * kGroup; i < (group + 1) * kGroup; ++i)
            out[i] = scale * static_cast<float>(quant(i)) - minimum;
    }
}

void dequantize_q4_k(Bytes block, std::span<float> out) {
    dequantize_with_minimum<Q4_K>(
        block, [&](std::size_t i) { return nibble_at(block, Q4_K::nibbles, Q4_K::pair, i); }, out);
}

void dequantize_q5_k(Bytes block, std::span<float> out) {
    const auto quant = [&](std::size_t i) {
        const std::uint32_t fifth = byte_at(block, Q5_K::fifth_bits + i % kGroup) >> (i / kGroup) & 1u;
        return nibble_at(block, Q5_K::nibbles, Q5_K::pair, i) | fifth << 4;
    };
    dequantize_with_minimum<Q5_K>(block, quant, out);
}

/// The byte and shift of the two upper bits of an element of q6_k: four elements, 32 apart, share a byte.
std::size_t upper_byte(std::size_t element) { return Q6_K::upper_bits + element / 128 * 32 + element % 32; }
std::uint32_t upper_shift(std::size_t element) { return static_cast<std::uint32_t>(element % 128 / 32 * 2); }

void dequantize_q6_k(Bytes block, std::span<float> out) {
    const float d = half_at(block, Q6_K::d);
    for (std::size_t i = 0; i < out.size(); ++i) {
        const std::uint32_t upper = byte_at(block, upper_byte(i)) >> upper_shift(i) & 3u;
        const std::uint32_t quant = nibble_at(block, Q6_K::nibbles, Q6_K::pair, i) | upper << 4;
        out[i] = d * signed_byte_at(block, Q6_K::scales + i / kGroup6) * (static_cast<float>(quant) - 32);
    }
}

// ---- from floats to blocks; `values` is one block, `block` all zeros

/// value / scale as an integer from `lowest` to `highest`; the one nearest to 0 where the quotient is no number.
int level(float value, float scale, int lowest, int highest) {
    const float quotient = value / scale;
    if (std::isnan(quotient) || scale == 0) return std::max(lowest, 0);
    return static_cast<int>(
        std::nearbyint(std::clamp(quotient, static_cast<float>(lowest), static_cast<float>(highest))));
}

constexpr int kRefinements = 4;  // the fit has converged to below a percent of its error

/// The scale that makes scale · q nearest to the values, q = level(−levels … levels − 1): from the element of largest magnitude,
/// which gets the level that has no positive twin; then by least squares, q and scale in turns.
float fit_scale(Floats values, int levels) {
    const float extreme = *std::ranges::max_element(values, {}, [](float value) { return std::abs(value); });
    float scale = extreme / static_cast<float>(-levels), best = scale;
    float least = std::numeric_limits<float>::infinity();
    for (int round = 0; round <= kRefinements; ++round) {
        float error = 0, products = 0, squares = 0;
        for (const float value : values) {
            const auto q = static_cast<float>(level(value, scale, -levels, levels - 1));
            error += (scale * q - value) * (scale * q - value);
            products += q * value;
            squares += q * q;
        }
        if (error < least) least = error, best = scale;
        if (squares == 0) break;
        scale = products / squares;
    }
    return best;
}

/// x ≈ scale · q − minimum with q = 0 … levels.
struct Affine {
    float scale = 0, minimum = 0;
};

/// From the smallest and largest value (0 is always in range, since minimum may not be negative), then by least squares, q and
/// the rest in turns.
Affine fit_affine(Floats values, int levels) {
    const float lowest = std::min(0.0f, std::ranges::min(values)), highest = std::max(0.0f, std::ranges::max(values));
    Affine fit{.scale = (highest - lowest) / static_cast<float>(levels), .minimum = -lowest}, best = fit;
    const auto count = static_cast<float>(values.size());
    float least = std::numeric_limits<float>::infinity();
    for (int round = 0; round <= kRefinements; ++round) {
        float error = 0, sum = 0, quants = 0, squares = 0, products = 0;
        for (const float value : values) {
            const auto q = static_cast<float>(level(value + fit.minimum, fit.scale, 0, levels));
            const float difference = fit.scale * q - fit.minimum - value;
            error += difference * difference;
            sum += value;
            quants += q;
            squares += q * q;
            products += q * value;
        }
        if (error < least) least = error, best = fit;
        const float determinant = count * squares - quants * quants;
        if (determinant <= 0) break;
        fit.scale = (count * products - quants * sum) / determinant;
        fit.minimum = (fit.scale * quants - sum) / count;
        if (fit.minimum < 0) fit = {.scale = products / squares, .minimum = 0};
        if (fit.scale < 0) break;
    }
    return best;
}

float largest_magnitude(Floats values) {
    return std::abs(*std::ranges::max_element(values, {}, [](float value) { return std::abs(value); }));
}

void quantize_q8_0(Floats values, std::span<std::byte> block) {
    const float d = rounded_to_half(largest_magnitude(values) / 127);
    put_half(block, Q8_0::d, d);
    for (std::size_t i = 0; i < values.size(); ++i)
        block[Q8_0::quants + i] = static_cast<std::byte>(level(values[i], d, -127, 127));
}

void quantize_q4_0(Floats values, std::span<std::byte> block) {
    const float d = rounded_to_half(fit_scale(values, 8));
    put_half(block, Q4_0::d, d);
    for (std::size_t i = 0; i < values.size(); ++i)
        put_nibble(block, Q4_0::nibbles, Q4_0::pair, i, level(values[i], d, -8, 7) + 8);
}

/// q4_k and q5_k; `put_quant(i, q)` stores q of element i.
template <class Layout>
void quantize_with_minimum(Floats values, std::span<std::byte> block, auto&& put_quant) {
    std::array<Affine, kGroups> fits;
    Affine largest;
    for (std::size_t group = 0; group < kGroups; ++group) {
        fits[group] = fit_affine(values.subspan(group * kGroup, kGroup), Layout::levels);
        largest.scale = std::max(largest.scale, fits[group].scale);
        largest.minimum = std::max(largest.minimum, fits[group].minimum);
    }
    const float d = rounded_to_half(largest.scale / 63), m = rounded_to_half(largest.minimum / 63);
    put_half(block, Layout::d, d);
    put_half(block, Layout::m, m);
    for (std::size_t group = 0; group < kGroups; ++group) {
        const GroupScales scales{level(fits[group].scale, d, 0, 63), level(fits[group].minimum, m, 0, 63)};
        put_group_scales(block.subspan(Layout::scales), group, scales);
        const float scale = d * static_cast<float>(scales.s), minimum = m * static_cast<float>(scales.t);
        for (std::size_t i = group * kGroup; i < (group + 1) * kGroup; ++i)
            put_quant(i, level(values[i] + minimum, scale, 0, Layout::levels));
    }
}

void quantize_q4_k(Floats values, std::span<std::byte> block) {
    quantize_with_minimum<Q4_K>(
        values, block, [&](std::size_t i, int quant) { put_nibble(block, Q4_K::nibbles, Q4_K::pair, i, quant); });
}

void quantize_q5_k(Floats values, std::span<std::byte> block) {
    quantize_with_minimum<Q5_K>(values, block, [&](std::size_t i, int quant) {
        put_nibble(block, Q5_K::nibbles, Q5_K::pair, i, quant);
        put_bits(block, Q5_K::fifth_bits + i % kGroup, quant >> 4, static_cast<std::uint32_t>(i / kGroup));
    });
}

void quantize_q6_k(Floats values, std::span<std::byte> block) {
    constexpr std::size_t kScales = 256 / kGroup6;
    std::array<float, kScales> fits;
    for (std::size_t group = 0; group < kScales; ++group)
        fits[group] = fit_scale(values.subspan(group * kGroup6, kGroup6), 32);
    const float extreme = *std::ranges::max_element(fits, {}, [](float scale) { return std::abs(scale); });
    const float d = rounded_to_half(extreme / -128);
    put_half(block, Q6_K::d, d);
    for (std::size_t group = 0; group < kScales; ++group) {
        const int s = level(fits[group], d, -128, 127);
        block[Q6_K::scales + group] = static_cast<std::byte>(s);
        for (std::size_t i = group * kGroup6; i < (group + 1) * kGroup6; ++i) {
            const int quant = level(values[i], d * static_cast<float>(s), -32, 31) + 32;
            put_nibble(block, Q6_K::nibbles, Q6_K::pair, i, quant);
            put_bits(block, upper_byte(i), quant >> 4, upper_shift(i));
        }
    }
}

std::size_t scale_offset(DType dtype) {
    return dtype == DType::q6_k ? Q6_K::d : 0;  // the others begin with it
}

}  // namespace

void dequantize(DType dtype, Bytes blocks, std::span<float> out) {
    assert(is_quantized(dtype) && blocks.size() == bytes_of(dtype, out.size()));
    const std::size_t elements = block_elements(dtype), bytes = block_bytes(dtype);
    const auto each_block = [&](auto&& dequantize_block) {
        for (std::size_t i = 0; i < out.size() / elements; ++i)
            dequantize_block(blocks.subspan(i * bytes, bytes), out.subspan(i * elements, elements));
    };
    switch (dtype) {
    case DType::q8_0: return each_block(dequantize_q8_0);
    case DType::q4_0: return each_block(dequantize_q4_0);
    case DType::q4_k: return each_block(dequantize_q4_k);
    case DType::q5_k: return each_block(dequantize_q5_k);
    case DType::q6_k: return each_block(dequantize_q6_k);
    default: return;
    }
}

void quantize(DType dtype, Floats values, std::span<std::byte> blocks) {
    assert(is_quantized(dtype) && blocks.size() == bytes_of(dtype, values.size()));
    const std::size_t elements = block_elements(dtype), bytes = block_bytes(dtype);
    std::ranges::fill(blocks, std::byte{0});
    const auto each_block = [&](auto&& quantize_block) {
        for (std::size_t i = 0; i < values.size() / elements; ++i) {
            const Floats of_block = values.subspan(i * elements, elements);
            const std::span<std::byte> block = blocks.subspan(i * bytes, bytes);
            if (std::ranges::all_of(of_block, [](float value) { return std::isfinite(value); }))
                quantize_block(of_block, block);
            else
                put_half(block, scale_offset(dtype), std::numeric_limits<float>::quiet_NaN());
        }
    };
    switch (dtype) {
    case DType::q8_0: return each_block(quantize_q8_0);
    case DType::q4_0: return each_block(quantize_q4_0);
    case DType::q4_k: return each_block(quantize_q4_k);
    case DType::q5_k: return each_block(quantize_q5_k);
    case DType::q6_k: return each_block(quantize_q6_k);
    default: return;
    }
}

Result<TensorData> quantized(const TensorData& data, DType dtype) {
    if (!is_quantized(dtype) || !is_float(data.dtype))
        return Error{ErrorCode::UnsupportedDtype, "quantized: cannot make " + std::string(to_string(dtype)) +
                                                      " blocks of " + std::string(to_string(data.dtype)) + " values"};
    const auto count = data.shape.checked_element_count();
    if (data.shape.rank() == 0 || !count || data.shape.back() % block_elements(dtype) != 0)
        return Error{ErrorCode::InvalidArgument, "quantized: the rows of " + to_string(data.shape) +
                                                     " are no multiple of the " +
                                                     std::to_string(block_elements(dtype)) + " elements of a " +
                                                     std::string(to_string(dtype)) + " block"};
    if (bytes_of(data.dtype, *count) != data.bytes.size())
        return Error{ErrorCode::InvalidArgument, "quantized: " + std::to_string(data.bytes.size()) +
                                                     " bytes do not fit the shape " + to_string(data.shape)};
    const auto blocks = std::make_shared<std::vector<std::byte>>(bytes_of(dtype, *count));
    constexpr std::size_t kChunk = 1 << 16;  // elements; whole blocks of every format
    std::vector<float> values(std::min<std::size_t>(kChunk, *count));
    for (std::size_t first = 0; first < *count; first += kChunk) {
        const auto part = std::span(values).first(std::min<std::size_t>(kChunk, *count - first));
        if (auto converted = convert(data.dtype, data.bytes, first, part); !converted)
            return std::move(converted).error();
        quantize(dtype, part, std::span(*blocks).subspan(bytes_of(dtype, first), bytes_of(dtype, part.size())));
    }
    return TensorData{
        .dtype = dtype, .shape = data.shape, .bytes = std::span<const std::byte>(*blocks), .owner = blocks};
}

}  // namespace vkformer
