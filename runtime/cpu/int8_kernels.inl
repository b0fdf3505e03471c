// SPDX-License-Identifier: MIT
// Int8Kernels of every format, for x86-64 with AVX2; see vectors.inl. VKFORMER_HAS_AVX512_VNNI: vectors of sixteen columns, and
// instructions that add four products of bytes to each of their lanes; VKFORMER_HAS_AVX_VNNI: these, with eight columns.
//
// What an instruction multiplies is unsigned bytes with signed ones. Quants of weights that are unsigned go in as they are, and what
// their format takes away from them is taken from the sum (minimum · d · Σ q of x).
#include "cpu/vectors.inl"

constexpr std::size_t kGroup = 32, kGroups = 8;  // elements; groups whose scales make a vector

inline float half_at(const std::byte* from) { return _cvtsh_ss(load<std::uint16_t>(from)); }

// ---- what differs between the instruction sets ---------------------------------------------------------------------------------

/// sums[lane] += Σ of four products of u and s. Without the instruction for it, sums of two products must fit 16 bits: u is at most 128.
inline Ints add_products(Ints sums, Ints u, Ints s) {
#if defined(VKFORMER_HAS_AVX512_VNNI)
    return (Ints)_mm256_dpbusd_epi32((__m256i)sums, (__m256i)u, (__m256i)s);
#elif defined(VKFORMER_HAS_AVX_VNNI)
    return (Ints)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)u, (__m256i)s);
#else
    const __m256i twos = _mm256_maddubs_epi16((__m256i)u, (__m256i)s);
    return sums + (Ints)_mm256_madd_epi16(twos, _mm256_set1_epi16(1));
#endif
}

/// The same with signed w: s takes its signs. −128 times −127 to 127 fits.
inline Ints add_signed_products(Ints sums, Ints w, Ints s) {
    return add_products(sums, (Ints)_mm256_abs_epi8((__m256i)w), (Ints)_mm256_sign_epi8((__m256i)s, (__m256i)w));
}

// A panel's vectors: a lane is a column. Two of them by six rows, or twelve sums and what goes into them, stay in registers.
#if defined(VKFORMER_HAS_AVX512_VNNI)
using ColumnFloats = float __attribute__((vector_size(64)));
using ColumnInts = std::int32_t __attribute__((vector_size(64)));
constexpr std::size_t kColumnLanes = 16, kVectors = 2, kTileRows = 8, kSmallTileRows = 4;
inline ColumnInts add_column_products(ColumnInts sums, ColumnInts u, ColumnInts s) {
    return (ColumnInts)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)u, (__m512i)s);
}
inline ColumnInts all_lanes(std::int32_t number) { return (ColumnInts)_mm512_set1_epi32(number); }
inline ColumnFloats all_lanes(float number) { return (ColumnFloats)_mm512_set1_ps(number); }
#else
using ColumnFloats = Floats;
using ColumnInts = Ints;
constexpr std::size_t kColumnLanes = 8, kVectors = 1, kTileRows = 6, kSmallTileRows = 2;
inline ColumnInts add_column_products(ColumnInts sums, ColumnInts u, ColumnInts s) { return add_products(sums, u, s); }
inline ColumnInts all_lanes(std::int32_t number) { return (ColumnInts)_mm256_set1_epi32(number); }
inline ColumnFloats all_lanes(float number) { return (ColumnFloats)_mm256_set1_ps(number); }
#endif
constexpr std::size_t kPanelColumns = kVectors * kColumnLanes;

// ---- formats -------------------------------------------------------------------------------------------------------------------
// quants(block, g): those of 32 neighbours in their order, of group g of eight; is_signed, or unsigned and
// kOffset or a minimum too large. kHalves: scales per group. kPairs: dot products read two groups at once, whose x have changed places:
// the first 16 of both, then the second 16. At `block` begin the blocks of eight groups.

/// d of `count` blocks that lie `bytes` apart: 8, or 1 and zeros.
template <std::size_t count>
inline Floats block_scales(const std::byte* block, std::size_t bytes) {
    if constexpr (count == 1) return Floats{half_at(block)};
    __m128i halves = _mm_setzero_si128();
    const auto half = [&](std::size_t i) { return static_cast<int>(load<std::uint16_t>(block + i * bytes)); };
    halves = _mm_insert_epi16(halves, half(0), 0);
    halves = _mm_insert_epi16(halves, half(1), 1);
    halves = _mm_insert_epi16(halves, half(2), 2);
    halves = _mm_insert_epi16(halves, half(3), 3);
    halves = _mm_insert_epi16(halves, half(4), 4);
    halves = _mm_insert_epi16(halves, half(5), 5);
    halves = _mm_insert_epi16(halves, half(6), 6);
    halves = _mm_insert_epi16(halves, half(7), 7);
    return (Floats)_mm256_cvtph_ps(halves);
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

/// Sixteen bytes of nibbles, the lower ones first: a byte each.
inline __m256i nibble_bytes(const std::byte* from) {
    const __m128i nibbles = load<__m128i>(from);
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(nibbles), _mm_srli_epi16(nibbles, 4), 1);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

/// What they stand for.
inline __m256i table_bytes(__m256i nibbles) {
    constexpr const std::int8_t* kTable = kIq4Values.data();
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load<__m128i>(kTable)), nibbles);
}

/// Bit i of 32 as 16 in byte i, or 0.
inline __m256i fifth_bits(std::int32_t bits) {
    const __m256i of_bytes = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i places = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
    const __m256i spread = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(bits), of_bytes), places);
    return _mm256_and_si256(_mm256_cmpeq_epi8(spread, places), _mm256_set1_epi8(16));
}

template <NibbleFormat format>
struct Nibbles {
    static constexpr std::size_t kBytes = format.bytes(), kHalves = 1;
    static constexpr bool kOneGroup = true, kSigned = format.has_table, kMinimum = format.has_minimum;
    static constexpr bool kPairs = !format.has_fifth_bits && !format.has_table;
    static constexpr std::int32_t kOffset = format.offset();
    static Ints quants(const std::byte* block, std::size_t g) {
        block += g * kBytes;
        __m256i quants = nibble_bytes(block + format.nibbles());
        if constexpr (format.has_fifth_bits)
            quants = _mm256_or_si256(quants, fifth_bits(load<std::int32_t>(block + format.fifth_bits())));
        if constexpr (format.has_table) quants = table_bytes(quants);
        return (Ints)quants;
    }
    /// What groups g and g + 1 have: the lower nibbles, which are the first 16 of each, or the upper ones.
    static Ints pair(const std::byte* block, std::size_t g, std::size_t half) {
        block += g * kBytes + format.nibbles();
        const __m256i nibbles =
            _mm256_inserti128_si256(_mm256_castsi128_si256(load<__m128i>(block)), load<__m128i>(block + kBytes), 1);
        return (Ints)((Words)nibbles >> static_cast<std::uint32_t>(4 * half) & 0x0F0F0F0Fu);
    }
    template <std::size_t count>
    static void scales(const std::byte* block, Floats* d, Floats& minimum) {
        d[0] = block_scales<count>(block, kBytes);
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
        return (Ints)table_bytes(nibble_bytes(block + 8 + 16 * g));
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
        const __m128i both = load<__m128i>(block + 192);
        const float scale = half_at(block + 208);
        d[0] =
            scale * as_numbers((Ints)_mm256_cvtepi8_epi32(_mm_shuffle_epi8(both, _mm_set1_epi64x(0x0E0C0A0806040200))));
        d[1] =
            scale * as_numbers((Ints)_mm256_cvtepi8_epi32(_mm_shuffle_epi8(both, _mm_set1_epi64x(0x0F0D0B0907050301))));
    }
};

template <class Format>
constexpr std::size_t kBytesOfEight = Format::kOneGroup ? kGroups* Format::kBytes : Format::kBytes;

// ---- activations ---------------------------------------------------------------------------------------------------------------

struct QuantizedGroup {
    float scale;
    std::int32_t sums[2];  // of the quants, by halves
};

inline QuantizedGroup quantize_group(const float* x, std::int8_t* quants) {
    Floats values[4];
    for (std::size_t i = 0; i < 4; ++i) values[i] = load<Floats>(x + i * kLanes);
    // The bits of magnitudes are in their order, and those of NaN above all others.
    __m256i most = _mm256_setzero_si256();
    for (std::size_t i = 0; i < 4; ++i) most = _mm256_max_epi32(most, (__m256i)((Ints)values[i] & 0x7FFFFFFF));
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xB1));
    const float largest = bits_to_float(static_cast<std::uint32_t>(_mm_cvtsi128_si32(four)));

    const float inverse = largest >= 0x1p-100f ? 127 / largest : 0;
    __m256i rounded[4];
    for (std::size_t i = 0; i < 4; ++i) rounded[i] = _mm256_cvtps_epi32((__m256)(inverse * values[i]));
    // Packing goes by halves of the vectors: groups of four end up as 0 2 4 6, 1 3 5 7.
    const __m256i mixed =
        _mm256_packs_epi16(_mm256_packs_epi32(rounded[0], rounded[1]), _mm256_packs_epi32(rounded[2], rounded[3]));
    const __m256i bytes = _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    __builtin_memcpy(quants, &bytes, sizeof bytes);

    const Ints sums = add_products(Ints{}, (Ints)_mm256_set1_epi8(1), (Ints)bytes);
    return {largest / 127, {sums[0] + sums[1] + sums[2] + sums[3], sums[4] + sums[5] + sums[6] + sums[7]}};
}

template <class Format>
void quantize(const float* x, std::size_t groups, std::int8_t* quants, float* scales, float* totals) {
    for (std::size_t g = 0; g < groups; ++g) {
        const QuantizedGroup group = quantize_group(x + g * kGroup, quants + g * kGroup);
        scales[g] = group.scale;
        totals[g] = group.scale * static_cast<float>(group.sums[0] + group.sums[1]);
    }
    if constexpr (Format::kPairs)
        for (std::size_t g = 0; g < groups / kGroups * kGroups; g += 2) {
            const auto first = load<__m256i>(quants + g * kGroup), second = load<__m256i>(quants + (g + 1) * kGroup);
            const __m256i halves[] = {_mm256_permute2x128_si256(first, second, 0x20),
                                      _mm256_permute2x128_si256(first, second, 0x31)};
            __builtin_memcpy(quants + g * kGroup, halves, sizeof halves);
        }
}

// ---- few rows of x: dot products with the bytes of the file --------------------------------------------------------------------

template <class Format, std::size_t rows>
struct DotSums {
    Floats products[rows][2] = {};  // two: a sum need not wait for the one before
    Floats minimums[rows] = {};
};

/// The first over lanes 0 … 3, the second over lanes 4 … 7.
inline Floats two_scales(const float* first, const float* second) {
    return (Floats)_mm256_blend_ps(_mm256_broadcast_ss(first), _mm256_broadcast_ss(second), 0xF0);
}

/// `count` groups from `first_group` on, eight or one.
template <class Format, std::size_t rows, std::size_t count>
inline void add_groups(const std::byte* block, const QuantizedRows& x, std::size_t first_group,
                       DotSums<Format, rows>& sums) {
    if constexpr (count == kGroups) prefetch<kBytesOfEight<Format>>(block);
    Floats d[Format::kHalves], minimum = {};
    Format::template scales<count>(block, d, minimum);
    float scales[rows][Format::kHalves][count];
    for (std::size_t r = 0; r < rows; ++r) {
        const std::size_t at = r * x.groups + first_group;
        const Floats of_x = count == 1 ? Floats{x.scales[at]} : load<Floats>(x.scales + at);
        for (std::size_t h = 0; h < Format::kHalves; ++h) {
            const Floats product = d[h] * of_x;
            __builtin_memcpy(scales[r][h], &product, sizeof scales[r][h]);
        }
        if constexpr (!Format::kSigned && Format::kHalves == 1)
            sums.minimums[r] += minimum * (count == 1 ? Floats{x.totals[at]} : load<Floats>(x.totals + at));
    }
    if constexpr (Format::kPairs && count == kGroups) {
#pragma GCC unroll 8
        for (std::size_t g = 0; g < count; g += 2) {
            const Ints first = Format::pair(block, g, 0), second = Format::pair(block, g, 1);
#pragma GCC unroll 4
            for (std::size_t r = 0; r < rows; ++r) {
                const std::int8_t* const of_x = x.quants + (r * x.groups + first_group + g) * kGroup;
                const Ints products =
                    add_products(add_products(Ints{}, first, load<Ints>(of_x)), second, load<Ints>(of_x + kGroup));
                sums.products[r][g / 2 % 2] +=
                    as_numbers(products) * two_scales(&scales[r][0][g], &scales[r][0][g + 1]);
            }
        }
        return;
    }
#pragma GCC unroll 8
    for (std::size_t g = 0; g < count; ++g) {
        Ints quants = Format::quants(block, g);
        if constexpr (Format::kHalves == 2)
            quants = (Ints)_mm256_sub_epi8((__m256i)quants, _mm256_set1_epi8(Format::kOffset));
#pragma GCC unroll 4
        for (std::size_t r = 0; r < rows; ++r) {
            const Ints of_x = load<Ints>(x.quants + (r * x.groups + first_group + g) * kGroup);
            const Ints products = Format::kSigned || Format::kHalves == 2 ? add_signed_products(Ints{}, quants, of_x)
                                                                          : add_products(Ints{}, quants, of_x);
            const Floats scale = Format::kHalves == 2 ? two_scales(&scales[r][0][g], &scales[r][Format::kHalves - 1][g])
                                                      : (Floats)_mm256_broadcast_ss(&scales[r][0][g]);
            sums.products[r][g % 2] += as_numbers(products) * scale;
        }
    }
}

template <class Format, std::size_t rows>
void add_row_dots(const std::byte* weight_row, const QuantizedRows& x, float* y, std::size_t stride) {
    DotSums<Format, rows> sums;
    std::size_t g = 0;
    for (; g + kGroups <= x.groups; g += kGroups, weight_row += kBytesOfEight<Format>)
        add_groups<Format, rows, kGroups>(weight_row, x, g, sums);
    if constexpr (Format::kOneGroup)
        for (; g < x.groups; ++g, weight_row += Format::kBytes) add_groups<Format, rows, 1>(weight_row, x, g, sums);
    for (std::size_t r = 0; r < rows; ++r)
        y[r * stride] += sum_of(sums.products[r][0] + sums.products[r][1] - sums.minimums[r]);
}

template <class Format>
void add_dots(const std::byte* weight_row, const QuantizedRows& x, float* y, std::size_t stride) {
    if (x.rows == 1) return add_row_dots<Format, 1>(weight_row, x, y, stride);
    add_row_dots<Format, 2>(weight_row, x, y, stride);
}

// ---- many rows: tiles of x and panels of weights, a group at a time ------------------------------------------------------------
// A tile's group: quants [rows][32], scales [rows], then what sums begin with: kMinimum: d · Σ q [rows], else −offset · Σ q [kHalves][rows].
// A panel's group: quants [8][columns][4], scales [kHalves][columns], kMinimum: minimums [columns].

/// What of a format matters to a panel. Its quants are unsigned but for q8_0 and tables without VNNI, whose products would not fit 16 bits.
template <std::size_t halves, bool has_minimum, bool is_signed>
struct PanelOf {
    static constexpr std::size_t kHalves = halves;
    static constexpr bool kMinimum = has_minimum, kSigned = is_signed;
    static constexpr std::size_t kQuants = kGroup * kPanelColumns, kScales = kPanelColumns * sizeof(float);
    static constexpr std::size_t kBytes = kQuants + (kHalves + kMinimum) * kScales;
    static constexpr std::size_t kTileRowBytes = kGroup + (1 + kHalves) * sizeof(float);
};
#if defined(VKFORMER_HAS_AVX512_VNNI) || defined(VKFORMER_HAS_AVX_VNNI)
template <class Format>
using Panel = PanelOf<Format::kHalves, Format::kMinimum, false>;
#else
template <class Format>
using Panel = PanelOf<Format::kHalves, Format::kMinimum, Format::kSigned>;
#endif
template <class Format>
constexpr std::int32_t kPanelOffset = Format::kSigned && !Panel<Format>::kSigned ? 128 : Format::kOffset;

template <class P>
inline void make_tile_of(const float* x, std::size_t stride, std::size_t rows, std::size_t size, std::size_t groups,
                         std::int32_t offset, std::byte* tile) {
    for (std::size_t g = 0; g < groups; ++g, tile += size * P::kTileRowBytes)
        for (std::size_t r = 0; r < size; ++r) {
            std::int8_t quants[kGroup] = {};
            QuantizedGroup group = {};
            if (r < rows) group = quantize_group(x + r * stride + g * kGroup, quants);
            __builtin_memcpy(tile + r * kGroup, quants, kGroup);
            std::byte* const scales = tile + size * kGroup + r * sizeof(float);
            __builtin_memcpy(scales, &group.scale, sizeof(float));
            for (std::size_t h = 0; h < P::kHalves; ++h) {
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

/// Eight columns of a panel: `rows` are where their blocks begin.
template <class Format, std::size_t count>
inline void make_columns(const std::byte* const* rows, std::byte* panel) {
    using P = Panel<Format>;
    Ints vectors[8];
    for (std::size_t g = 0; g < count; ++g) {
        for (std::size_t c = 0; c < 8; ++c) {
            vectors[c] = Format::quants(rows[c], g);
            if constexpr (Format::kSigned && !P::kSigned) vectors[c] ^= static_cast<std::int32_t>(0x80808080u);
        }
        transpose(vectors);
        for (std::size_t i = 0; i < 8; ++i)
            __builtin_memcpy(panel + g * P::kBytes + i * kPanelColumns * 4, &vectors[i], sizeof vectors[i]);
    }
    Ints scales[3][8];
    for (std::size_t c = 0; c < 8; ++c) {
        Floats d[Format::kHalves], minimum = {};
        Format::template scales<count>(rows[c], d, minimum);
        for (std::size_t h = 0; h < Format::kHalves; ++h) scales[h][c] = (Ints)d[h];
        scales[Format::kHalves][c] = (Ints)minimum;
    }
    for (std::size_t h = 0; h < Format::kHalves + Format::kMinimum; ++h) {
        transpose(scales[h]);
        for (std::size_t g = 0; g < count; ++g)
            __builtin_memcpy(panel + g * P::kBytes + P::kQuants + h * P::kScales, &scales[h][g], sizeof(Ints));
    }
}

template <class Format>
void make_panel(const std::byte* weight, std::size_t row_bytes, std::size_t columns, std::size_t groups,
                std::byte* panel) {
    for (std::size_t c = 0; c < kPanelColumns; c += 8) {
        const std::byte* rows[8];  // beyond the last, it again
        for (std::size_t i = 0; i < 8; ++i) rows[i] = weight + (c + i < columns ? c + i : columns - 1) * row_bytes;
        std::size_t g = 0;
        for (; g + kGroups <= groups; g += kGroups) {
            make_columns<Format, kGroups>(rows, panel + g * Panel<Format>::kBytes + c * 4);
            for (std::size_t i = 0; i < 8; ++i) rows[i] += kBytesOfEight<Format>;
        }
        if constexpr (Format::kOneGroup)
            for (; g < groups; ++g) {
                make_columns<Format, 1>(rows, panel + g * Panel<Format>::kBytes + c * 4);
                for (std::size_t i = 0; i < 8; ++i) rows[i] += Format::kBytes;
            }
    }
}

inline ColumnInts column_products(ColumnInts sums, ColumnInts quants, ColumnInts x, bool is_signed) {
#if !defined(VKFORMER_HAS_AVX512_VNNI) && !defined(VKFORMER_HAS_AVX_VNNI)
    if (is_signed) return add_signed_products(sums, quants, x);
#endif
    (void)is_signed;
    return add_column_products(sums, quants, x);
}

template <class P, std::size_t size>
void add_tile_of(const std::byte* tile, std::size_t rows, const std::byte* panel, std::size_t columns,
                 std::size_t groups, float* y, std::size_t stride) {
    constexpr std::size_t kWords = kGroup / 4 / P::kHalves;  // of four products, that share a scale
    ColumnFloats sums[size][kVectors] = {};
    for (std::size_t g = 0; g < groups; ++g, panel += P::kBytes, tile += size * P::kTileRowBytes) {
        const std::byte* const of_x = tile + size * kGroup;
        for (std::size_t h = 0; h < P::kHalves; ++h) {
            ColumnInts products[size][kVectors];
#pragma GCC unroll 12
            for (std::size_t r = 0; r < size; ++r) {
                const auto begin = P::kMinimum
                                       ? ColumnInts{}
                                       : all_lanes(load<std::int32_t>(of_x + ((1 + h) * size + r) * sizeof(float)));
                for (std::size_t v = 0; v < kVectors; ++v) products[r][v] = begin;
            }
#pragma GCC unroll 8
            for (std::size_t k = h * kWords; k < (h + 1) * kWords; ++k) {
                ColumnInts quants[kVectors];
                for (std::size_t v = 0; v < kVectors; ++v)
                    quants[v] = load<ColumnInts>(panel + k * kPanelColumns * 4 + v * sizeof(ColumnInts));
#pragma GCC unroll 12
                for (std::size_t r = 0; r < size; ++r) {
                    const ColumnInts x = all_lanes(load<std::int32_t>(tile + r * kGroup + k * 4));
                    for (std::size_t v = 0; v < kVectors; ++v)
                        products[r][v] = column_products(products[r][v], quants[v], x, P::kSigned);
                }
            }
#pragma GCC unroll 2
            for (std::size_t v = 0; v < kVectors; ++v) {
                const auto scale = load<ColumnFloats>(panel + P::kQuants + h * P::kScales + v * sizeof(ColumnFloats));
#pragma GCC unroll 12
                for (std::size_t r = 0; r < size; ++r)
                    sums[r][v] += __builtin_convertvector(products[r][v], ColumnFloats) *
                                  (scale * all_lanes(load<float>(of_x + r * sizeof(float))));
            }
        }
        if constexpr (P::kMinimum)
            for (std::size_t v = 0; v < kVectors; ++v) {
                const auto minimum = load<ColumnFloats>(panel + P::kQuants + P::kScales + v * sizeof(ColumnFloats));
#pragma GCC unroll 12
                for (std::size_t r = 0; r < size; ++r)
                    sums[r][v] -= minimum * all_lanes(load<float>(of_x + (size + r) * sizeof(float)));
            }
    }
    for (std::size_t r = 0; r < rows; ++r)
        if (columns == kPanelColumns) {
            for (std::size_t v = 0; v < kVectors; ++v) {
                const ColumnFloats sum = load<ColumnFloats>(y + r * stride + v * kColumnLanes) + sums[r][v];
                __builtin_memcpy(y + r * stride + v * kColumnLanes, &sum, sizeof sum);
            }
        } else {
            float numbers[kPanelColumns];
            __builtin_memcpy(numbers, sums[r], sizeof numbers);
            for (std::size_t c = 0; c < columns; ++c) y[r * stride + c] += numbers[c];
        }
}

template <class P>
void add_tile(const std::byte* tile, std::size_t size, std::size_t rows, const std::byte* panel, std::size_t columns,
              std::size_t groups, float* y, std::size_t stride) {
    if (size == kTileRows) return add_tile_of<P, kTileRows>(tile, rows, panel, columns, groups, y, stride);
    add_tile_of<P, kSmallTileRows>(tile, rows, panel, columns, groups, y, stride);
}

template <class Format>
constexpr Int8Kernels kInt8 = {.panel_columns = kPanelColumns,
                               .tile_rows = kTileRows,
                               .small_tile_rows = kSmallTileRows,
                               .panel_bytes = Panel<Format>::kBytes,
                               .tile_row_bytes = Panel<Format>::kTileRowBytes,
                               .quantize = quantize<Format>,
                               .add_dots = add_dots<Format>,
                               .make_tile = make_tile<Format>,
                               .make_panel = make_panel<Format>,
                               .add_tile = add_tile<Panel<Format>>};

inline const Int8Kernels* int8_kernels_of(DType dtype) noexcept {
    switch (dtype) {
    case DType::q8_0: return &kInt8<Q8_0>;
    case DType::q4_0: return &kInt8<Nibbles<kQ4_0Format>>;
    case DType::q4_1: return &kInt8<Nibbles<kQ4_1Format>>;
    case DType::q5_0: return &kInt8<Nibbles<kQ5_0Format>>;
    case DType::q5_1: return &kInt8<Nibbles<kQ5_1Format>>;
    case DType::iq4_nl: return &kInt8<Nibbles<kIq4NlFormat>>;
    case DType::iq4_xs: return &kInt8<Iq4_XS>;
    case DType::q3_k: return &kInt8<Q3_K>;
    case DType::q4_k: return &kInt8<Q4_K>;
    case DType::q5_k: return &kInt8<Q5_K>;
    case DType::q6_k: return &kInt8<Q6_K>;
    default: return nullptr;
    }
}
