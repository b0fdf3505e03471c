// SPDX-License-Identifier: MIT
// Int8Kernels of every format; see vectors.inl. What an instruction set has of its own is in int8_x86.inl and int8_neon.inl.
#include "cpu/vectors.inl"

constexpr std::size_t kGroup = 32, kGroups = 8;  // elements; groups whose scales make a vector
constexpr std::size_t kDotColumns = 8;           // weight rows whose sums make a vector

/// For fewer than eight columns: one copy is enough.
[[gnu::noinline]] inline void add_some(const float (&sums)[8], std::size_t columns, float* y) {
#pragma GCC unroll 1
    for (std::size_t c = 0; c < columns; ++c) y[c] += sums[c];
}

/// y[0 … columns − 1] += the sums of eight columns.
inline void add_to_row(Floats sums, std::size_t columns, float* y) {
    if (columns == 8) return store(y, load<Floats>(y) + sums);
    float numbers[8];
    store(numbers, sums);
    add_some(numbers, columns, y);
}

/// The lower or the upper nibbles of the bytes in words, as bytes.
template <class Words>
inline Words nibbles_of(Words words, std::size_t half) {
    return words >> static_cast<std::uint32_t>(4 * half) & 0x0F0F0F0Fu;
}

#ifdef VKFORMER_HAS_NEON
#include "cpu/int8_neon.inl"
#else
#include "cpu/int8_x86.inl"
#endif

// ---- formats -------------------------------------------------------------------------------------------------------------------
// quants(block, g): those of 32 neighbours in their order, of group g of eight; is_signed, or unsigned and
// kOffset or a minimum too large. kHalves: scales per group. kPairs: dot products read two groups at once, whose x have changed places:
// the first 16 of both, then the second 16. At `block` begin the blocks of eight groups.

/// As block_scales, of exponents.
template <std::size_t count>
inline Floats block_powers(const std::byte* block, std::size_t bytes) {
    float powers[kGroups] = {};
    for (std::size_t i = 0; i < count; ++i) powers[i] = power_at(block + i * bytes);
    return load<Floats>(powers);
}

struct Q8_0 {
    static constexpr std::size_t kBytes = 34, kHalves = 1;
    static constexpr bool kOneGroup = true, kSigned = true, kMinimum = false, kPairs = false;
    static constexpr std::int32_t kOffset = 0;
    static Ints quants(const std::byte* block, std::size_t g) { return load<Ints>(block + g * kBytes + 2); }
    template <std::size_t count>
    static void scales(const std::byte* block, Floats* d, Floats&) {
        d[0] = block_scales<count>(block, kBytes);
    }
};

template <NibbleFormat format>
struct Nibbles {
    static constexpr std::size_t kBytes = format.bytes(), kHalves = 1;
    static constexpr bool kOneGroup = true, kSigned = format.is_signed(), kMinimum = format.has_minimum;
    static constexpr bool kPairs = kHasPairs && !format.has_fifth_bits && !format.has_table;
    static constexpr std::int32_t kOffset = format.offset();
    static constexpr const std::int8_t* kTable = format.has_exponent ? kMxfp4Values.data() : kIq4Values.data();
    static Ints quants(const std::byte* block, std::size_t g) {
        block += g * kBytes;
        Ints quants = nibble_bytes(block + format.nibbles());
        if constexpr (format.has_fifth_bits)
            quants = quants | fifth_bits(load<std::int32_t>(block + format.fifth_bits()));
        if constexpr (format.has_table) quants = table_bytes(quants, kTable);
        return quants;
    }
    /// The bytes of groups g and g + 1: their lower nibbles are the first 16 of each, the upper ones the second.
    static Ints pair(const std::byte* block, std::size_t g) {
        block += g * kBytes + format.nibbles();
        return two_of_sixteen(block, block + kBytes);
    }
    template <std::size_t count>
    static void scales(const std::byte* block, Floats* d, Floats& minimum) {
        d[0] = format.has_exponent ? block_powers<count>(block, kBytes) : block_scales<count>(block, kBytes);
        if constexpr (kMinimum)
            minimum = -block_scales<count>(block + NibbleFormat::minimum(), kBytes);
        else
            minimum = static_cast<float>(kOffset) * d[0];
    }
};

/// d · (s − 32) · table[q]. s from 4 and 2 bits.
struct Iq4_XS {
    static constexpr std::size_t kBytes = 136, kHalves = 1;
    static constexpr bool kOneGroup = false, kSigned = true, kMinimum = false, kPairs = false;
    static constexpr std::int32_t kOffset = 0;
    static Ints quants(const std::byte* block, std::size_t g) {
        return table_bytes(nibble_bytes(block + 8 + 16 * g), kIq4Values.data());
    }
    template <std::size_t>
    static void scales(const std::byte* block, Floats* d, Floats&) {
        const Words lower = (Words{} + load<std::uint32_t>(block + 4)) >> Words{0, 4, 8, 12, 16, 20, 24, 28} & 15u;
        const std::uint32_t upper_bits = load<std::uint16_t>(block + 2);
        const Words upper = (Words{} + upper_bits) >> Words{0, 2, 4, 6, 8, 10, 12, 14} & 3u;
        d[0] = half_at(block) * as_numbers((Ints)(lower | upper << 4) - 32);
    }
};

/// d · (s − 32) · (q − 4), with an s of each 16. Groups 0 to 3 and 4 to 7 share bytes of two bits, and all eight those of the third.
struct Q3_K {
    static constexpr std::size_t kBytes = 110, kHalves = 2;
    static constexpr bool kOneGroup = false, kSigned = false, kMinimum = false, kPairs = false;
    static constexpr std::int32_t kOffset = 4;  // dot products take it away from the quants
    static Ints quants(const std::byte* block, std::size_t g) {
        const Words two =
            load<Words>(block + 32 + g / 4 * kGroup) >> static_cast<std::uint32_t>(g % 4 * 2) & 0x03030303u;
        return (Ints)(two | (load<Words>(block) >> static_cast<std::uint32_t>(g) & 0x01010101u) << 2);
    }
    /// d[0] of the first 16 of each group, d[1] of the second. Number i of s has its lower 4 bits in byte i % 8, its upper 2 in byte 8 + i % 4.
    template <std::size_t>
    static void scales(const std::byte* block, Floats* d, Floats&) {
        const float scale = half_at(block + 108);
        std::int32_t s[2][kGroups];
        for (std::size_t i = 0; i < 2 * kGroups; ++i) {
            const int lower = static_cast<unsigned char>(block[96 + i % 8]) >> (i / 8 * 4) & 15;
            const int upper = static_cast<unsigned char>(block[104 + i % 4]) >> (i / 4 * 2) & 3;
            s[i % 2][i / 2] = (lower | upper << 4) - 32;
        }
        for (std::size_t half = 0; half < 2; ++half) d[half] = scale * as_numbers(load<Ints>(s[half]));
    }
};

/// d · s · q − m · t. s and t from 12 bytes: those of groups 0 … 3 are the lower 6 bits of the first and second four; the last four
/// hold the lower 4 bits of groups 4 … 7, whose upper 2 bits lie above the others.
inline void scales_with_minimum(const std::byte* block, Floats* d, Floats& minimum) {
    const auto a = load<std::uint32_t>(block + 4), b = load<std::uint32_t>(block + 8),
               c = load<std::uint32_t>(block + 12);
    const std::uint32_t s[] = {a & 0x3F3F3F3Fu, (c & 0x0F0F0F0Fu) | (a >> 2 & 0x30303030u)};
    const std::uint32_t t[] = {b & 0x3F3F3F3Fu, (c >> 4 & 0x0F0F0F0Fu) | (b >> 2 & 0x30303030u)};
    d[0] = half_at(block) * as_numbers(eight_bytes(reinterpret_cast<const std::byte*>(s)));
    minimum = half_at(block + 2) * as_numbers(eight_bytes(reinterpret_cast<const std::byte*>(t)));
}

struct Q4_K {
    static constexpr std::size_t kBytes = 144, kHalves = 1;
    static constexpr bool kOneGroup = false, kSigned = false, kMinimum = true, kPairs = false;
    static constexpr std::int32_t kOffset = 0;
    static Ints quants(const std::byte* block, std::size_t g) {
        return (Ints)(load<Words>(block + 16 + g / 2 * kGroup) >> static_cast<std::uint32_t>(g % 2 * 4) & 0x0F0F0F0Fu);
    }
    template <std::size_t>
    static void scales(const std::byte* block, Floats* d, Floats& minimum) {
        scales_with_minimum(block, d, minimum);
    }
};

struct Q5_K {
    static constexpr std::size_t kBytes = 176, kHalves = 1;
    static constexpr bool kOneGroup = false, kSigned = false, kMinimum = true, kPairs = false;
    static constexpr std::int32_t kOffset = 0;
    static Ints quants(const std::byte* block, std::size_t g) {
        const Words nibbles =
            load<Words>(block + 48 + g / 2 * kGroup) >> static_cast<std::uint32_t>(g % 2 * 4) & 0x0F0F0F0Fu;
        const Words fifths = (load<Words>(block + 16) >> static_cast<std::uint32_t>(g) & 0x01010101u) << 4;
        return (Ints)(nibbles | fifths);
    }
    template <std::size_t>
    static void scales(const std::byte* block, Floats* d, Floats& minimum) {
        scales_with_minimum(block, d, minimum);
    }
};

/// d · s · (q − 32), with an s of each 16. Groups 0 and 2 of each four share bytes of nibbles, 1 and 3 too, and all four those of the
/// upper bits.
struct Q6_K {
    static constexpr std::size_t kBytes = 210, kHalves = 2;
    static constexpr bool kOneGroup = false, kSigned = false, kMinimum = false, kPairs = false;
    static constexpr std::int32_t kOffset = 32;  // dot products take it away from the quants
    static Ints quants(const std::byte* block, std::size_t g) {
        const Words nibbles =
            load<Words>(block + g / 4 * 2 * kGroup + g % 2 * kGroup) >> static_cast<std::uint32_t>(g % 4 / 2 * 4) &
            0x0F0F0F0Fu;
        const Words upper =
            (load<Words>(block + 128 + g / 4 * kGroup) >> static_cast<std::uint32_t>(g % 4 * 2) & 0x03030303u) << 4;
        return (Ints)(nibbles | upper);
    }
    /// d[0] of the first 16 of each group, d[1] of the second.
    template <std::size_t>
    static void scales(const std::byte* block, Floats* d, Floats&) {
        const float scale = half_at(block + 208);
        const EvenOdd s = even_odd_bytes(block + 192);
        d[0] = scale * as_numbers(s.even);
        d[1] = scale * as_numbers(s.odd);
    }
};

template <class Format>
constexpr std::size_t kBytesOfEight = Format::kOneGroup ? kGroups* Format::kBytes : Format::kBytes;

#ifndef VKFORMER_HAS_AVX512_VNNI
/// The weights of `count` groups as dot products read them.
template <class Format, std::size_t count>
struct DotWeights {
    static constexpr bool kPairs = Format::kPairs && count > 1;
    Ints quants[count];

    explicit DotWeights(const std::byte* block) {
#pragma GCC unroll 8
        for (std::size_t g = 0; g < count; ++g)
            if constexpr (kPairs)
                quants[g] = (Ints)nibbles_of((Words)Format::pair(block, g / 2 * 2), g % 2);
            else if constexpr (Format::kHalves == 2)
                quants[g] = minus_in_bytes<Format::kOffset>(Format::quants(block, g));
            else
                quants[g] = Format::quants(block, g);
    }

    /// `sum` and their products with a row of x, whose quants are of_x. scales: of `count` groups, of their first halves and their second.
    DotFloats add(DotFloats sum, const std::int8_t* of_x, const Floats* scales) const {
        float numbers[Format::kHalves][kGroups];
        for (std::size_t h = 0; h < Format::kHalves; ++h) store(numbers[h], scales[h]);
        DotFloats sums[2] = {sum, DotFloats{}};  // one need not wait for the other
        if constexpr (kPairs) {
#pragma GCC unroll 4
            for (std::size_t g = 0; g < count; g += 2)
                add_pair(sums[g / 2 % 2], quants[g], quants[g + 1], of_x + g * kGroup, &numbers[0][g]);
        } else {
#pragma GCC unroll 8
            for (std::size_t g = 0; g < count; ++g)
                add_group<Format::kHalves, Format::kSigned || Format::kHalves == 2>(
                    sums[g % 2], quants[g], load<Ints>(of_x + g * kGroup), &numbers[0][g],
                    &numbers[Format::kHalves - 1][g]);
        }
        return sums[0] + sums[1];
    }
};
#endif

// ---- activations ---------------------------------------------------------------------------------------------------------------

template <bool pairs>
void quantize(const float* x, std::size_t groups, std::int8_t* quants, float* scales, float* totals) {
    for (std::size_t g = 0; g < groups; ++g) {
        const QuantizedGroup group = quantize_group(x + g * kGroup, quants + g * kGroup);
        scales[g] = group.scale;
        totals[g] = group.scale * static_cast<float>(group.sums[0] + group.sums[1]);
    }
    if constexpr (pairs) {
        std::size_t g = 0;
        for (; g + kGroups <= groups; g += kGroups) exchange_eight(quants + g * kGroup);
        for (; g + 2 <= groups; g += 2) exchange_halves(quants + g * kGroup);
    }
}

// ---- few rows of x: dot products with the bytes of the file --------------------------------------------------------------------

/// What a row of x has of a weight row so far.
struct DotSums {
    DotFloats products;
    Floats minimums;
};

/// The first `count` lanes, eight, two or one; the others are zeros.
template <std::size_t count>
inline Floats some_floats(const float* from) {
    if constexpr (count == kGroups)
        return load<Floats>(from);
    else
        return first_lanes(from[0], count == 2 ? from[1] : 0);
}

/// `count` groups from `first_group` on, eight, two or one, whose weights are unpacked once for all rows of x.
template <class Format, std::size_t count>
inline void add_groups(const std::byte* block, const QuantizedRows& x, std::size_t first_group, DotSums* sums) {
    if constexpr (count == kGroups) prefetch<kBytesOfEight<Format>>(block);
    Floats d[Format::kHalves], minimum = {};
    Format::template scales<count>(block, d, minimum);
    const DotWeights<Format, count> weights(block);
#pragma GCC unroll 1
    for (std::size_t r = 0; r < x.rows; ++r) {
        const std::size_t at = r * x.groups + first_group;
        const Floats of_x = some_floats<count>(x.scales + at);
        Floats scales[Format::kHalves];
        for (std::size_t h = 0; h < Format::kHalves; ++h) scales[h] = d[h] * of_x;
        if constexpr (!Format::kSigned && Format::kHalves == 1)
            sums[r].minimums += minimum * some_floats<count>(x.totals + at);
        sums[r].products = weights.add(sums[r].products, x.quants + at * kGroup, scales);
    }
}

/// A weight row times all rows of x: lanes[r][column], which are still to be added up.
template <class Format>
inline void dot_row(const std::byte* weight_row, const QuantizedRows& x, std::size_t column,
                    DotLanes (*lanes)[kDotColumns]) {
    DotSums sums[kMostDotRows];
    for (std::size_t r = 0; r < x.rows; ++r) sums[r].products = DotFloats{}, sums[r].minimums = Floats{};
    std::size_t g = 0;
    for (; g + kGroups <= x.groups; g += kGroups, weight_row += kBytesOfEight<Format>)
        add_groups<Format, kGroups>(weight_row, x, g, sums);
    if constexpr (Format::kOneGroup) {
        if constexpr (Format::kPairs)
            for (; g + 2 <= x.groups; g += 2, weight_row += 2 * Format::kBytes)
                add_groups<Format, 2>(weight_row, x, g, sums);
        for (; g < x.groups; ++g, weight_row += Format::kBytes) add_groups<Format, 1>(weight_row, x, g, sums);
    }
    for (std::size_t r = 0; r < x.rows; ++r) lanes[r][column] = dot_lanes(sums[r].products, sums[r].minimums);
}

/// The lanes of some weight rows are added up together: those of one would wait for each other.
template <class Format>
void add_dots(const std::byte* weight, std::size_t row_bytes, std::size_t columns, const QuantizedRows& x, float* y,
              std::size_t stride) {
    for (std::size_t first = 0; first < columns; first += kDotColumns) {
        const std::size_t some = columns - first < kDotColumns ? columns - first : kDotColumns;
        DotLanes lanes[kMostDotRows][kDotColumns];
        if (some < kDotColumns) clear(lanes);
#pragma GCC unroll 1
        for (std::size_t c = 0; c < some; ++c) dot_row<Format>(weight + (first + c) * row_bytes, x, c, lanes);
#pragma GCC unroll 1
        for (std::size_t r = 0; r < x.rows; ++r) add_to_row(sums_of(lanes[r]), some, y + r * stride + first);
    }
}

// ---- more rows: tiles of x and panels of weights, a group at a time ------------------------------------------------------------
// A tile's group: quants [32 / kTileBytes][rows][kTileBytes], scales [rows], then what sums begin with, kBegins numbers of each row:
// kMinimum: d · Σ q [rows], else −offset · Σ q [kHalves][rows]. A panel's group: quants [32 / kPanelBytes][columns][kPanelBytes],
// scales [kHalves][columns], kMinimum: minimums [columns].

/// What of a format matters to a panel. Its quants are what kPanelSigns says: as an instruction multiplies them.
template <std::size_t halves, bool has_minimum, bool is_signed>
struct PanelOf {
    static constexpr std::size_t kHalves = halves;
    static constexpr bool kMinimum = has_minimum, kSigned = is_signed;
    static constexpr std::size_t kQuants = kGroup * kPanelColumns, kScales = kPanelColumns * sizeof(float);
    static constexpr std::size_t kBytes = kQuants + (kHalves + kMinimum) * kScales;
    static constexpr std::size_t kBegins = kPanelSigns == Signs::all ? has_minimum : halves;
    static constexpr std::size_t kTileRowBytes = kGroup + (1 + kBegins) * sizeof(float);
};
template <class Format>
using Panel = PanelOf<Format::kHalves, Format::kMinimum,
                      kPanelSigns == Signs::all || (kPanelSigns == Signs::as_format && Format::kSigned)>;
/// What a panel's quants are too large by, and sums begin below zero for.
template <class Format>
constexpr std::int32_t kPanelOffset = kPanelSigns == Signs::all                    ? 0
                                      : Format::kSigned && !Panel<Format>::kSigned ? 128
                                                                                   : Format::kOffset;

/// Formats that have the same panel share it.
template <class P>
VKFORMER_SHARED_CODE void make_tile_of(const float* x, std::size_t stride, std::size_t rows, std::size_t size,
                                       std::size_t groups, std::int32_t offset, std::byte* tile) {
    for (std::size_t g = 0; g < groups; ++g, tile += size * P::kTileRowBytes)
        for (std::size_t r = 0; r < size; ++r) {
            std::int8_t quants[kGroup] = {};
            QuantizedGroup group = {};
            if (r < rows) group = quantize_group(x + r * stride + g * kGroup, quants);
#pragma GCC unroll 8
            for (std::size_t k = 0; k < kGroup; k += kTileBytes)
                __builtin_memcpy(tile + k * size + r * kTileBytes, quants + k, kTileBytes);
            std::byte* const scales = tile + size * kGroup + r * sizeof(float);
            __builtin_memcpy(scales, &group.scale, sizeof(float));
#pragma GCC unroll 2
            for (std::size_t h = 0; h < P::kBegins; ++h) {
                const std::int32_t sum = P::kHalves == 2 ? group.sums[h] : group.sums[0] + group.sums[1];
                const float total = group.scale * static_cast<float>(sum);
                const std::int32_t begin = -offset * sum;
                __builtin_memcpy(scales + (1 + h) * size * sizeof(float),
                                 P::kMinimum ? static_cast<const void*>(&total) : &begin, sizeof(float));
            }
        }
}

template <class Format>
void make_tile(const float* x, std::size_t stride, std::size_t rows, std::size_t size, std::size_t groups,
               std::byte* tile) {
    make_tile_of<Panel<Format>>(x, stride, rows, size, groups, kPanelOffset<Format>, tile);
}

/// Column c of a panel's group.
inline void put_column(Ints quants, std::byte* group, std::size_t c) {
    if constexpr (kPanelBytes == kGroup) {
        store(reinterpret_cast<float*>(group + c * kGroup), (Floats)quants);
    } else {
        std::byte bytes[kGroup];
        __builtin_memcpy(bytes, &quants, sizeof bytes);
        for (std::size_t k = 0; k < kGroup; k += kPanelBytes)
            __builtin_memcpy(group + k * kPanelColumns + c * kPanelBytes, bytes + k, kPanelBytes);
    }
}

/// Column c of a panel: `block` is where its blocks begin.
template <class Format, std::size_t count>
inline void put_groups(const std::byte* block, std::byte* panel, std::size_t c) {
    using P = Panel<Format>;
    if constexpr (count == kGroups) prefetch<kBytesOfEight<Format>>(block);
#pragma GCC unroll 8
    for (std::size_t g = 0; g < count; ++g) {
        Ints quants = Format::quants(block, g);
        if constexpr (Format::kSigned && !P::kSigned)
            quants ^= static_cast<std::int32_t>(0x80808080u);
        else if constexpr (kPanelOffset<Format> != Format::kOffset)
            quants = minus_in_bytes<Format::kOffset>(quants);
        put_column(quants, panel + g * P::kBytes, c);
    }
    Floats scales[Format::kHalves + 1] = {};
    Format::template scales<count>(block, scales, scales[Format::kHalves]);
#pragma GCC unroll 3
    for (std::size_t h = 0; h < Format::kHalves + Format::kMinimum; ++h)
#pragma GCC unroll 8
        for (std::size_t g = 0; g < count; ++g) {
            const float scale = scales[h][g];
            __builtin_memcpy(panel + g * P::kBytes + P::kQuants + h * P::kScales + c * sizeof(float), &scale,
                             sizeof scale);
        }
}

template <class Format>
void make_panel(const std::byte* weight, std::size_t row_bytes, std::size_t columns, std::size_t groups,
                std::byte* panel) {
    for (std::size_t c = 0; c < kPanelColumns; ++c) {
        const std::byte* block = weight + (c < columns ? c : columns - 1) * row_bytes;  // beyond the last, it again
        std::size_t g = 0;
        for (; g + kGroups <= groups; g += kGroups, block += kBytesOfEight<Format>)
            put_groups<Format, kGroups>(block, panel + g * Panel<Format>::kBytes, c);
        if constexpr (Format::kOneGroup)
            for (; g < groups; ++g, block += Format::kBytes)
                put_groups<Format, 1>(block, panel + g * Panel<Format>::kBytes, c);
    }
}

template <class P>
void add_tile(const std::byte* tile, std::size_t size, std::size_t rows, const std::byte* panel, std::size_t columns,
              std::size_t groups, const Ahead& ahead, float* y, std::size_t stride) {
    if (size == kTileRows) return add_tile_of<P, kTileRows>(tile, rows, panel, columns, groups, ahead, y, stride);
    add_tile_of<P, kSmallTileRows>(tile, rows, panel, columns, groups, ahead, y, stride);
}

#ifdef VKFORMER_HAS_AVX_VNNI
/// Panels of quants that are not signed are the same bytes with AVX2, made by the same instructions: one function for both.
template <DType dtype, class Format>
void make_own_panel(const std::byte* weight, std::size_t row_bytes, std::size_t columns, std::size_t groups,
                    std::byte* panel) {
    if constexpr (Format::kSigned)
        make_panel<Format>(weight, row_bytes, columns, groups, panel);
    else
        int8_kernels_avx2(dtype)->make_panel(weight, row_bytes, columns, groups, panel);
}
#else
template <DType, class Format>
constexpr auto make_own_panel = make_panel<Format>;
#endif

template <DType dtype, class Format>
constexpr Int8Kernels kInt8 = {.panel_columns = kPanelColumns,
                               .tile_rows = kTileRows,
                               .small_tile_rows = kSmallTileRows,
                               .dot_rows = kDotRows,
                               .left_over_rows = kLeftOverRows,
                               .panel_bytes = Panel<Format>::kBytes,
                               .tile_row_bytes = Panel<Format>::kTileRowBytes,
                               .quantize = quantize<Format::kPairs>,
                               .add_dots = add_dots<Format>,
                               .make_tile = make_tile<Format>,
                               .make_panel = make_own_panel<dtype, Format>,
                               .add_tile = add_tile<Panel<Format>>};

inline const Int8Kernels* int8_kernels_of(DType dtype) noexcept {
    switch (dtype) {
    case DType::q8_0: return &kInt8<DType::q8_0, Q8_0>;
    case DType::q4_0: return &kInt8<DType::q4_0, Nibbles<kQ4_0Format>>;
    case DType::q4_1: return &kInt8<DType::q4_1, Nibbles<kQ4_1Format>>;
    case DType::q5_0: return &kInt8<DType::q5_0, Nibbles<kQ5_0Format>>;
    case DType::q5_1: return &kInt8<DType::q5_1, Nibbles<kQ5_1Format>>;
    case DType::iq4_nl: return &kInt8<DType::iq4_nl, Nibbles<kIq4NlFormat>>;
    case DType::mxfp4: return &kInt8<DType::mxfp4, Nibbles<kMxfp4Format>>;
    case DType::iq4_xs: return &kInt8<DType::iq4_xs, Iq4_XS>;
    case DType::q3_k: return &kInt8<DType::q3_k, Q3_K>;
    case DType::q4_k: return &kInt8<DType::q4_k, Q4_K>;
    case DType::q5_k: return &kInt8<DType::q5_k, Q5_K>;
    case DType::q6_k: return &kInt8<DType::q6_k, Q6_K>;
    default: return nullptr;
    }
}
