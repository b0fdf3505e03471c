// SPDX-License-Identifier: MIT
#include "core/block_format.hpp"

#include <algorithm>
#include <array>
#include <bit>
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
struct Iq4_XS {
    static constexpr std::size_t d = 0, upper_bits = 2, lower_bits = 4, nibbles = 8, pair = 16;  // pair: see nibble_at
};
struct Q2_K {
    static constexpr std::size_t scales = 0, quants = 16, d = 80, m = 82;
};
struct Q3_K {
    static constexpr std::size_t third_bits = 0, quants = 32, scales = 96, d = 108;
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

constexpr std::size_t kGroup = 32;       // elements of a scale in q4_k, q5_k and iq4_xs
constexpr std::size_t kSmallGroup = 16;  // in q2_k, q3_k and q6_k
constexpr std::size_t kGroups = 8;       // of a block of 256
constexpr std::size_t kSmallGroups = 16;
constexpr std::size_t kNibblePair = 16;  // of the formats of 32 elements; see nibble_at

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

/// 2^(e − 128), the least two of which are no normal numbers.
float power_of(std::uint32_t exponent) {
    return std::bit_cast<float>(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
}

void dequantize_nibbles(const NibbleFormat& format, Bytes block, std::span<float> out) {
    const float d = format.has_exponent ? power_of(byte_at(block, 0)) : half_at(block, 0);
    const float m = format.has_minimum ? half_at(block, NibbleFormat::minimum()) : 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
        auto quant = static_cast<int>(nibble_at(block, format.nibbles(), kNibblePair, i));
        if (format.has_fifth_bits)
            quant |= static_cast<int>(byte_at(block, format.fifth_bits() + i / 8) >> (i % 8) & 1u) << 4;
        const int number = format.has_table ? format.table()[static_cast<std::size_t>(quant)] : quant;
        out[i] = d * static_cast<float>(number - format.offset());
        if (format.has_minimum) out[i] += m;  // −0 + 0 would be 0
    }
}

/// s − 32 of a group.
int iq4_xs_scale(Bytes block, std::size_t group) {
    const std::uint32_t lower = byte_at(block, Iq4_XS::lower_bits + group / 2) >> (group % 2 * 4) & 15u;
    const std::uint32_t upper = byte_at(block, Iq4_XS::upper_bits + group / 4) >> (group % 4 * 2) & 3u;
    return static_cast<int>(lower | upper << 4) - 32;
}

void dequantize_iq4_xs(Bytes block, std::span<float> out) {
    const float d = half_at(block, Iq4_XS::d);
    for (std::size_t i = 0; i < out.size(); ++i) {
        const float scale = d * static_cast<float>(iq4_xs_scale(block, i / kGroup));
        out[i] = scale * static_cast<float>(kIq4Values[nibble_at(block, Iq4_XS::nibbles, Iq4_XS::pair, i)]);
    }
}

/// The byte and shift of two bits of an element of q2_k, q3_k and q6_k: four elements, 32 apart, share a byte.
std::size_t two_bits_byte(std::size_t element) { return element / 128 * 32 + element % 32; }
std::uint32_t two_bits_shift(std::size_t element) { return static_cast<std::uint32_t>(element % 128 / 32 * 2); }

int two_bits_at(Bytes block, std::size_t begin, std::size_t element) {
    return static_cast<int>(byte_at(block, begin + two_bits_byte(element)) >> two_bits_shift(element) & 3u);
}

void dequantize_q2_k(Bytes block, std::span<float> out) {
    const float d = half_at(block, Q2_K::d), m = half_at(block, Q2_K::m);
    for (std::size_t i = 0; i < out.size(); ++i) {
        const std::uint32_t both = byte_at(block, Q2_K::scales + i / kSmallGroup);
        const float scale = d * static_cast<float>(both & 15u), minimum = m * static_cast<float>(both >> 4);
        out[i] = scale * static_cast<float>(two_bits_at(block, Q2_K::quants, i)) - minimum;
    }
}

/// In q3_k: where the lower four and the upper two bits of a group's s are.
struct Q3Scale {
    std::size_t lower_byte, upper_byte;
    std::uint32_t lower_shift, upper_shift;
    explicit Q3Scale(std::size_t group)
        : lower_byte(Q3_K::scales + group % 8),
          upper_byte(Q3_K::scales + 8 + group % 4),
          lower_shift(static_cast<std::uint32_t>(group / 8 * 4)),
          upper_shift(static_cast<std::uint32_t>(group / 4 * 2)) {}
};

int q3_k_scale(Bytes block, std::size_t group) {
    const Q3Scale at(group);
    const std::uint32_t lower = byte_at(block, at.lower_byte) >> at.lower_shift & 15u;
    const std::uint32_t upper = byte_at(block, at.upper_byte) >> at.upper_shift & 3u;
    return static_cast<int>(lower | upper << 4) - 32;
}

void dequantize_q3_k(Bytes block, std::span<float> out) {
    const float d = half_at(block, Q3_K::d);
    for (std::size_t i = 0; i < out.size(); ++i) {
        const auto third = static_cast<int>(byte_at(block, Q3_K::third_bits + i % kGroup) >> (i / kGroup) & 1u);
        const int number = (two_bits_at(block, Q3_K::quants, i) | third << 2) - 4;
        out[i] = d * static_cast<float>(q3_k_scale(block, i / kSmallGroup)) * static_cast<float>(number);
    }
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

void dequantize_q6_k(Bytes block, std::span<float> out) {
    const float d = half_at(block, Q6_K::d);
    for (std::size_t i = 0; i < out.size(); ++i) {
        const auto nibble = static_cast<int>(nibble_at(block, Q6_K::nibbles, Q6_K::pair, i));
        const int quant = nibble | two_bits_at(block, Q6_K::upper_bits, i) << 4;
        out[i] = d * signed_byte_at(block, Q6_K::scales + i / kSmallGroup) * static_cast<float>(quant - 32);
    }
}

// ---- from floats to blocks; `values` are of one block, `block` is all zeros

/// Values, and how much the error of each counts.
struct Weighted {
    Floats values, importance;  // of as many, or of none: all alike
    float largest = 1;          // of the importance

    /// 0 to 1, so that no sum of squares leaves the range of float.
    float weight(std::size_t i) const { return importance.empty() ? 1.0f : importance[i] / largest; }
    float operator[](std::size_t i) const { return values[i]; }
    std::size_t size() const { return values.size(); }
    /// A group that shares a scale; where none of it counts, or all do alike, that is no importance.
    Weighted group(std::size_t first, std::size_t count) const {
        const Floats of_group = importance.empty() ? importance : importance.subspan(first, count);
        if (of_group.empty()) return {values.subspan(first, count), {}};
        const auto [least, most] = std::ranges::minmax(of_group);
        return {values.subspan(first, count), least < most ? of_group : Floats(), most};
    }
};

/// value / scale as an integer from `lowest` to `highest`; the one nearest to 0 where the quotient is no number.
int level(float value, float scale, int lowest, int highest) {
    const float quotient = value / scale;
    if (std::isnan(quotient) || scale == 0) return std::max(lowest, 0);
    return static_cast<int>(
        std::nearbyint(std::clamp(quotient, static_cast<float>(lowest), static_cast<float>(highest))));
}

constexpr int kRefinements = 4;  // the fit has converged to below a percent of its error

struct ScaleFit {
    float scale = 0, error = std::numeric_limits<float>::infinity();
};

/// The scale that makes scale · quant(value, scale) nearest to the values, from `scale` on by least squares, quants and scale in turns.
ScaleFit refined_from(Weighted values, float scale, auto&& quant) {
    ScaleFit best{.scale = scale};
    for (int round = 0; round <= kRefinements; ++round) {
        float error = 0, products = 0, squares = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
            const float value = values[i], weight = values.weight(i);
            const auto q = static_cast<float>(quant(value, scale));
            error += weight * ((scale * q - value) * (scale * q - value));
            products += weight * (q * value);
            squares += weight * (q * q);
        }
        if (error < best.error) best = {.scale = scale, .error = error};
        if (squares == 0) break;
        scale = products / squares;
    }
    return best;
}

/// Parts of the range from which fits begin: where some values count little, they may better be cut off.
std::span<const float> first_shares(Weighted values) {
    static constexpr std::array<float, 5> kShares = {1.0f, 0.9f, 0.8f, 0.7f, 0.6f};
    return std::span(kShares).first(values.importance.empty() ? 1 : kShares.size());
}

/// The best of those that begin at parts of `scale`.
ScaleFit refined_scale(Weighted values, float scale, auto&& quant) {
    ScaleFit best{.scale = scale};
    for (const float share : first_shares(values))
        if (const ScaleFit fit = refined_from(values, share * scale, quant); fit.error < best.error) best = fit;
    return best;
}

/// The scale that makes scale · q nearest to the values, q = level(−levels … levels − 1): from the element of largest magnitude,
/// which gets the level that has no positive twin, on.
float fit_scale(Weighted values, int levels) {
    const float extreme = *std::ranges::max_element(values.values, {}, [](float value) { return std::abs(value); });
    const auto quant = [&](float value, float scale) { return level(value, scale, -levels, levels - 1); };
    return refined_scale(values, extreme / static_cast<float>(-levels), quant).scale;
}

/// The index of the number of kIq4Values that is nearest to value / scale.
int table_index(float value, float scale) {
    const float quotient = value / scale;
    if (std::isnan(quotient) || scale == 0) return 8;  // of 1, nearest to 0
    int index = 0;
    while (index < 15 && 2 * quotient > static_cast<float>(kIq4Values[static_cast<std::size_t>(index)] +
                                                           kIq4Values[static_cast<std::size_t>(index) + 1]))
        ++index;
    return index;
}

/// As fit_scale. The ends of the table differ, so the extreme is tried as either.
float fit_table_scale(Weighted values) {
    const float extreme = *std::ranges::max_element(values.values, {}, [](float value) { return std::abs(value); });
    const auto quant = [](float value, float scale) {
        return static_cast<int>(kIq4Values[static_cast<std::size_t>(table_index(value, scale))]);
    };
    const ScaleFit lowest = refined_scale(values, extreme / kIq4Values.front(), quant);
    const ScaleFit highest = refined_scale(values, extreme / kIq4Values.back(), quant);
    return highest.error < lowest.error ? highest.scale : lowest.scale;
}

/// x ≈ scale · q − minimum with q = 0 … levels.
struct Affine {
    float scale = 0, minimum = 0;
};

enum class Minimum : std::uint8_t { any, not_negative };

/// From the smallest and largest value (0 is always in range where the minimum may not be negative), then by least squares, q and
/// the rest in turns.
Affine fit_affine(Weighted values, int levels, Minimum allowed) {
    float least = std::numeric_limits<float>::infinity();
    float lowest = std::ranges::min(values.values), highest = std::ranges::max(values.values);
    if (allowed == Minimum::not_negative) lowest = std::min(0.0f, lowest), highest = std::max(0.0f, highest);
    const Affine whole{.scale = (highest - lowest) / static_cast<float>(levels), .minimum = -lowest};
    Affine best = whole;
    for (const float share : first_shares(values)) {
        Affine fit{.scale = share * whole.scale, .minimum = share * whole.minimum};
        for (int round = 0; round <= kRefinements; ++round) {
            float error = 0, count = 0, sum = 0, quants = 0, squares = 0, products = 0;
            for (std::size_t i = 0; i < values.size(); ++i) {
                const float value = values[i], weight = values.weight(i);
                const auto q = static_cast<float>(level(value + fit.minimum, fit.scale, 0, levels));
                const float difference = fit.scale * q - fit.minimum - value;
                error += weight * (difference * difference);
                count += weight;
                sum += weight * value;
                quants += weight * q;
                squares += weight * (q * q);
                products += weight * (q * value);
            }
            if (error < least) least = error, best = fit;
            const float determinant = count * squares - quants * quants;
            if (determinant <= 0) break;
            fit.scale = (count * products - quants * sum) / determinant;
            fit.minimum = (fit.scale * quants - sum) / count;
            if (fit.minimum < 0 && allowed == Minimum::not_negative) fit = {.scale = products / squares, .minimum = 0};
            if (fit.scale < 0) break;
        }
    }
    return best;
}

float largest_magnitude(Floats values) {
    return std::abs(*std::ranges::max_element(values, {}, [](float value) { return std::abs(value); }));
}

void quantize_q8_0(Weighted values, std::span<std::byte> block) {
    const float d = rounded_to_half(largest_magnitude(values.values) / 127);
    put_half(block, Q8_0::d, d);
    for (std::size_t i = 0; i < values.size(); ++i)
        block[Q8_0::quants + i] = static_cast<std::byte>(level(values[i], d, -127, 127));
}

/// The index of the number of kMxfp4Values that is nearest to value / scale.
int mxfp4_index(float value, float scale) {
    const float quotient = std::abs(value / scale);
    const auto magnitude = [](int index) { return kMxfp4Values[static_cast<std::size_t>(index)] - kMxfp4Values[0]; };
    int index = 0;
    while (index < 7 && 2 * quotient > static_cast<float>(magnitude(index) + magnitude(index + 1))) ++index;
    return index > 0 && value < 0 ? index + 8 : index;
}

/// The power of two below the largest value, or the next, where that errs less: the former cuts off what is above 3/4 of the range.
void quantize_mxfp4(Weighted values, std::span<std::byte> block) {
    int above = 0;  // the largest value is less than 2^above
    std::frexp(largest_magnitude(values.values), &above);
    const auto exponent = [&](int i) { return static_cast<std::uint32_t>(std::clamp(above + 124 + i, 0, 254)); };
    const auto error = [&](float scale) {
        float sum = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto index = static_cast<std::size_t>(mxfp4_index(values[i], scale));
            const float found = scale * static_cast<float>(kMxfp4Values[index] - kMxfp4Values[0]);
            sum += values.weight(i) * ((found - values[i]) * (found - values[i]));
        }
        return sum;
    };
    const std::uint32_t best = error(power_of(exponent(1))) < error(power_of(exponent(0))) ? exponent(1) : exponent(0);
    block[0] = static_cast<std::byte>(best);
    for (std::size_t i = 0; i < values.size(); ++i)
        put_nibble(block, kMxfp4Format.nibbles(), kNibblePair, i, mxfp4_index(values[i], power_of(best)));
}

void quantize_nibbles(const NibbleFormat& format, Weighted values, std::span<std::byte> block) {
    if (format.has_exponent) return quantize_mxfp4(values, block);
    const int levels = format.levels();
    Affine fit;
    if (format.has_minimum)
        fit = fit_affine(values, levels - 1, Minimum::any);
    else
        fit.scale = format.has_table ? fit_table_scale(values) : fit_scale(values, format.offset());
    const float d = rounded_to_half(fit.scale), m = rounded_to_half(-fit.minimum);
    put_half(block, 0, d);
    if (format.has_minimum) put_half(block, NibbleFormat::minimum(), m);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const int offset = format.offset();
        const int quant = format.has_table     ? table_index(values[i], d)
                          : format.has_minimum ? level(values[i] - m, d, 0, levels - 1)
                                               : level(values[i], d, -offset, offset - 1) + offset;
        put_nibble(block, format.nibbles(), kNibblePair, i, quant);
        if (format.has_fifth_bits)
            put_bits(block, format.fifth_bits() + i / 8, quant >> 4, static_cast<std::uint32_t>(i % 8));
    }
}

/// The largest of some scales.
float extreme_of(Floats scales) {
    return *std::ranges::max_element(scales, {}, [](float scale) { return std::abs(scale); });
}

void quantize_iq4_xs(Weighted values, std::span<std::byte> block) {
    std::array<float, kGroups> fits;
    for (std::size_t group = 0; group < kGroups; ++group)
        fits[group] = fit_table_scale(values.group(group * kGroup, kGroup));
    const float d = rounded_to_half(extreme_of(fits) / -32);
    put_half(block, Iq4_XS::d, d);
    for (std::size_t group = 0; group < kGroups; ++group) {
        const int s = level(fits[group], d, -32, 31), stored = s + 32;
        put_bits(block, Iq4_XS::lower_bits + group / 2, stored & 15, static_cast<std::uint32_t>(group % 2 * 4));
        put_bits(block, Iq4_XS::upper_bits + group / 4, stored >> 4, static_cast<std::uint32_t>(group % 4 * 2));
        for (std::size_t i = group * kGroup; i < (group + 1) * kGroup; ++i)
            put_nibble(block, Iq4_XS::nibbles, Iq4_XS::pair, i, table_index(values[i], d * static_cast<float>(s)));
    }
}

void quantize_q2_k(Weighted values, std::span<std::byte> block) {
    constexpr int kLevels = 3, kScaleLevels = 15;
    std::array<Affine, kSmallGroups> fits;
    Affine largest;
    for (std::size_t group = 0; group < kSmallGroups; ++group) {
        fits[group] = fit_affine(values.group(group * kSmallGroup, kSmallGroup), kLevels, Minimum::not_negative);
        largest.scale = std::max(largest.scale, fits[group].scale);
        largest.minimum = std::max(largest.minimum, fits[group].minimum);
    }
    const float d = rounded_to_half(largest.scale / kScaleLevels), m = rounded_to_half(largest.minimum / kScaleLevels);
    put_half(block, Q2_K::d, d);
    put_half(block, Q2_K::m, m);
    for (std::size_t group = 0; group < kSmallGroups; ++group) {
        const int s = level(fits[group].scale, d, 0, kScaleLevels), t = level(fits[group].minimum, m, 0, kScaleLevels);
        put_bits(block, Q2_K::scales + group, s | t << 4, 0);
        const float scale = d * static_cast<float>(s), minimum = m * static_cast<float>(t);
        for (std::size_t i = group * kSmallGroup; i < (group + 1) * kSmallGroup; ++i)
            put_bits(block, Q2_K::quants + two_bits_byte(i), level(values[i] + minimum, scale, 0, kLevels),
                     two_bits_shift(i));
    }
}

void quantize_q3_k(Weighted values, std::span<std::byte> block) {
    std::array<float, kSmallGroups> fits;
    for (std::size_t group = 0; group < kSmallGroups; ++group)
        fits[group] = fit_scale(values.group(group * kSmallGroup, kSmallGroup), 4);
    const float d = rounded_to_half(extreme_of(fits) / -32);
    put_half(block, Q3_K::d, d);
    for (std::size_t group = 0; group < kSmallGroups; ++group) {
        const int s = level(fits[group], d, -32, 31), stored = s + 32;
        const Q3Scale at(group);
        put_bits(block, at.lower_byte, stored & 15, at.lower_shift);
        put_bits(block, at.upper_byte, stored >> 4, at.upper_shift);
        for (std::size_t i = group * kSmallGroup; i < (group + 1) * kSmallGroup; ++i) {
            const int quant = level(values[i], d * static_cast<float>(s), -4, 3) + 4;
            put_bits(block, Q3_K::quants + two_bits_byte(i), quant & 3, two_bits_shift(i));
            put_bits(block, Q3_K::third_bits + i % kGroup, quant >> 2, static_cast<std::uint32_t>(i / kGroup));
        }
    }
}

/// q4_k and q5_k; `put_quant(i, q)` stores q of element i.
template <class Layout>
void quantize_with_minimum(Weighted values, std::span<std::byte> block, auto&& put_quant) {
    std::array<Affine, kGroups> fits;
    Affine largest;
    for (std::size_t group = 0; group < kGroups; ++group) {
        fits[group] = fit_affine(values.group(group * kGroup, kGroup), Layout::levels, Minimum::not_negative);
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

void quantize_q4_k(Weighted values, std::span<std::byte> block) {
    quantize_with_minimum<Q4_K>(
        values, block, [&](std::size_t i, int quant) { put_nibble(block, Q4_K::nibbles, Q4_K::pair, i, quant); });
}

void quantize_q5_k(Weighted values, std::span<std::byte> block) {
    quantize_with_minimum<Q5_K>(values, block, [&](std::size_t i, int quant) {
        put_nibble(block, Q5_K::nibbles, Q5_K::pair, i, quant);
        put_bits(block, Q5_K::fifth_bits + i % kGroup, quant >> 4, static_cast<std::uint32_t>(i / kGroup));
    });
}

void quantize_q6_k(Weighted values, std::span<std::byte> block) {
    std::array<float, kSmallGroups> fits;
    for (std::size_t group = 0; group < kSmallGroups; ++group)
        fits[group] = fit_scale(values.group(group * kSmallGroup, kSmallGroup), 32);
    const float d = rounded_to_half(extreme_of(fits) / -128);
    put_half(block, Q6_K::d, d);
    for (std::size_t group = 0; group < kSmallGroups; ++group) {
        const int s = level(fits[group], d, -128, 127);
        block[Q6_K::scales + group] = static_cast<std::byte>(s);
        for (std::size_t i = group * kSmallGroup; i < (group + 1) * kSmallGroup; ++i) {
            const int quant = level(values[i], d * static_cast<float>(s), -32, 31) + 32;
            put_nibble(block, Q6_K::nibbles, Q6_K::pair, i, quant);
            put_bits(block, Q6_K::upper_bits + two_bits_byte(i), quant >> 4, two_bits_shift(i));
        }
    }
}

}  // namespace

BlockScales block_scales(DType dtype) noexcept {
    if (const auto nibbles = nibble_format(dtype); nibbles && nibbles->has_minimum) return {0, NibbleFormat::minimum()};
    switch (dtype) {
    case DType::q4_k: return {Q4_K::d, Q4_K::m};
    case DType::q5_k: return {Q5_K::d, Q5_K::m};
    case DType::q6_k: return {Q6_K::d, {}};
    case DType::q2_k: return {Q2_K::d, Q2_K::m};
    case DType::q3_k: return {Q3_K::d, {}};
    default: return {0, {}};
    }
}

void dequantize(DType dtype, Bytes blocks, std::span<float> out) {
    assert(is_quantized(dtype) && blocks.size() == bytes_of(dtype, out.size()));
    const std::size_t elements = block_elements(dtype), bytes = block_bytes(dtype);
    const auto each_block = [&](auto&& dequantize_block) {
        for (std::size_t i = 0; i < out.size() / elements; ++i)
            dequantize_block(blocks.subspan(i * bytes, bytes), out.subspan(i * elements, elements));
    };
    if (const auto format = nibble_format(dtype))
        return each_block(
            [&](Bytes block, std::span<float> of_block) { dequantize_nibbles(*format, block, of_block); });
    switch (dtype) {
    case DType::q8_0: return each_block(dequantize_q8_0);
    case DType::iq4_xs: return each_block(dequantize_iq4_xs);
    case DType::q2_k: return each_block(dequantize_q2_k);
    case DType::q3_k: return each_block(dequantize_q3_k);
    case DType::q4_k: return each_block(dequantize_q4_k);
    case DType::q5_k: return each_block(dequantize_q5_k);
    case DType::q6_k: return each_block(dequantize_q6_k);
    default: return;
    }
}

void quantize(DType dtype, Floats values, std::span<std::byte> blocks, Floats importance) {
    assert(is_quantized(dtype) && blocks.size() == bytes_of(dtype, values.size()));
    assert(importance.empty() || importance.size() == values.size());
    const std::size_t elements = block_elements(dtype), bytes = block_bytes(dtype);
    std::ranges::fill(blocks, std::byte{0});
    const auto each_block = [&](auto&& quantize_block) {
        for (std::size_t i = 0; i < values.size() / elements; ++i) {
            const Weighted of_block =
                Weighted{.values = values, .importance = importance}.group(i * elements, elements);
            const std::span<std::byte> block = blocks.subspan(i * bytes, bytes);
            if (std::ranges::all_of(of_block.values, [](float value) { return std::isfinite(value); }))
                quantize_block(of_block, block);
            else if (dtype == DType::mxfp4)
                std::ranges::fill(block, std::byte{0xFF}), std::ranges::fill(block.subspan(1), std::byte{0x77});
            else
                put_half(block, block_scales(dtype).d, std::numeric_limits<float>::quiet_NaN());
        }
    };
    if (const auto format = nibble_format(dtype))
        return each_block(
            [&](Weighted of_block, std::span<std::byte> block) { quantize_nibbles(*format, of_block, block); });
    switch (dtype) {
    case DType::q8_0: return each_block(quantize_q8_0);
    case DType::iq4_xs: return each_block(quantize_iq4_xs);
    case DType::q2_k: return each_block(quantize_q2_k);
    case DType::q3_k: return each_block(quantize_q3_k);
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
