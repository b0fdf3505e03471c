// SPDX-License-Identifier: MIT
// What int8_kernels.inl needs of x86-64 with AVX2, and more with VKFORMER_HAS_AVX512_VNNI or VKFORMER_HAS_AVX_VNNI.
//
// What an instruction multiplies is unsigned bytes with signed ones. Quants of weights that are unsigned go in as they are, and what
// their format takes away from them is taken from the sum (minimum · d · Σ q of x).

inline float half_at(const std::byte* from) { return _cvtsh_ss(load<std::uint16_t>(from)); }

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

/// A tile's vectors: a lane is a row of x. The products of a panel's columns stay in registers, with AVX-512 the sums, too.
template <std::size_t rows>
struct Lanes;
template <>
struct Lanes<8> {
    using Numbers = Floats;
    using Integers = Ints;
    static Integers all(std::int32_t number) { return (Integers)_mm256_set1_epi32(number); }
    static Integers add(Integers sums, Integers u, Integers s) { return add_products(sums, u, s); }
    static Integers add_signed(Integers sums, Integers w, Integers s) { return add_signed_products(sums, w, s); }
};
#if defined(VKFORMER_HAS_AVX512_VNNI)
template <>
struct Lanes<16> {
    using Numbers = float __attribute__((vector_size(64)));
    using Integers = std::int32_t __attribute__((vector_size(64)));
    static Integers all(std::int32_t number) { return (Integers)_mm512_set1_epi32(number); }
    static Integers add(Integers sums, Integers u, Integers s) {
        return (Integers)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)u, (__m512i)s);
    }
};
constexpr std::size_t kTileRows = 16, kSmallTileRows = 8;
#else
constexpr std::size_t kTileRows = 8, kSmallTileRows = 8;
#endif
#if defined(VKFORMER_HAS_AVX512_VNNI)
constexpr std::size_t kDotRows = 6, kLeftOverRows = 0;
#elif defined(VKFORMER_HAS_AVX_VNNI)
constexpr std::size_t kDotRows = 3, kLeftOverRows = 0;
#else
constexpr std::size_t kDotRows = 6, kLeftOverRows = 2;
#endif
constexpr std::size_t kPanelColumns = 8;

/// Which quants of a panel have signs: none; those of formats that have them, whose products with a sign would not fit 16 bits.
enum class Signs { none, as_format, all };
#if defined(VKFORMER_HAS_AVX512_VNNI) || defined(VKFORMER_HAS_AVX_VNNI)
constexpr Signs kPanelSigns = Signs::none;
#else
constexpr Signs kPanelSigns = Signs::as_format;
#endif

inline Floats first_lanes(float first, float second) { return Floats{first, second}; }

/// d of `count` blocks that lie `bytes` apart: 8; or 2 or 1, and zeros.
template <std::size_t count>
inline Floats block_scales(const std::byte* block, std::size_t bytes) {
    if constexpr (count <= 2) return first_lanes(half_at(block), count == 2 ? half_at(block + bytes) : 0);
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

/// Sixteen bytes of nibbles, the lower ones first: a byte each.
inline Ints nibble_bytes(const std::byte* from) {
    const __m128i nibbles = load<__m128i>(from);
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(nibbles), _mm_srli_epi16(nibbles, 4), 1);
    return (Ints)_mm256_and_si256(both, _mm256_set1_epi8(15));
}

/// What they stand for.
inline Ints table_bytes(Ints nibbles, const std::int8_t* numbers) {
    return (Ints)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load<__m128i>(numbers)), (__m256i)nibbles);
}

/// Bit i of 32 as 16 in byte i, or 0.
inline Ints fifth_bits(std::int32_t bits) {
    const __m256i of_bytes = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i places = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
    const __m256i spread = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(bits), of_bytes), places);
    return (Ints)_mm256_and_si256(_mm256_cmpeq_epi8(spread, places), _mm256_set1_epi8(16));
}

struct QuantizedGroup {
    float scale;
    std::int32_t sums[2];  // of the quants, by halves
};

VKFORMER_SHARED_CODE inline QuantizedGroup quantize_group(const float* x, std::int8_t* quants) {
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

/// The signed bytes with even and with odd places of sixteen.
struct EvenOdd {
    Ints even, odd;
};
inline EvenOdd even_odd_bytes(const std::byte* from) {
    const __m128i both = load<__m128i>(from);
    return {(Ints)_mm256_cvtepi8_epi32(_mm_shuffle_epi8(both, _mm_set1_epi64x(0x0E0C0A0806040200))),
            (Ints)_mm256_cvtepi8_epi32(_mm_shuffle_epi8(both, _mm_set1_epi64x(0x0F0D0B0907050301)))};
}

template <int offset>
inline Ints minus_in_bytes(Ints bytes) {
    return (Ints)_mm256_sub_epi8((__m256i)bytes, _mm256_set1_epi8(offset));
}

// ---- few rows of x -------------------------------------------------------------------------------------------------------------

constexpr bool kHasPairs = true;
using DotLanes = Floats;

/// Sixteen bytes of each.
inline Ints two_of_sixteen(const std::byte* first, const std::byte* second) {
    return (Ints)_mm256_inserti128_si256(_mm256_castsi128_si256(load<__m128i>(first)), load<__m128i>(second), 1);
}

/// Two groups, of which the first gets the first halves of both.
inline void exchange_halves(std::int8_t* quants) {
    const auto first = load<__m256i>(quants), second = load<__m256i>(quants + kGroup);
    const __m256i halves[] = {_mm256_permute2x128_si256(first, second, 0x20),
                              _mm256_permute2x128_si256(first, second, 0x31)};
    __builtin_memcpy(quants, halves, sizeof halves);
}

#ifdef VKFORMER_HAS_AVX512_VNNI
using DotFloats = Lanes<16>::Numbers;
using DotInts = Lanes<16>::Integers;
using DotWords = std::uint32_t __attribute__((vector_size(64)));

inline DotInts two_vectors(Ints first, Ints second) {
    return __builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

/// Eight groups: the first halves of four, then their second halves, and the same of the other four.
inline void exchange_eight(std::int8_t* quants) {
    for (std::size_t g = 0; g < 8; g += 4) {
        std::int8_t* const four = quants + g * kGroup;
        const auto a = load<__m512i>(four), b = load<__m512i>(four + 2 * kGroup);
        const __m512i halves[] = {__builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13),
                                  __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15)};
        __builtin_memcpy(four, halves, sizeof halves);
    }
}

/// Of eight scales those that belong to the sixteen lanes: `count` from `first` on by turns, each for `width` neighbours.
template <int first, int width, int count>
inline DotFloats spread_scales(Floats scales) {
    constexpr auto at = [](int lane) { return first + lane / width % count; };
    return __builtin_shufflevector(scales, scales, at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9),
                                   at(10), at(11), at(12), at(13), at(14), at(15));
}
/// The same of groups `first` and first + 1, whose halves have scales of their own.
template <int first>
inline DotFloats spread_halves(Floats of_first, Floats of_second) {
    constexpr int a = first, b = first + 1, c = 8 + a, d = 8 + b;
    return __builtin_shufflevector(of_first, of_second, a, a, a, a, c, c, c, c, b, b, b, b, d, d, d, d);
}

/// The weights of `count` groups as dot products read them.
template <class Format, std::size_t count>
struct DotWeights {
    static constexpr bool kPairs = Format::kPairs && count > 1, kHasSigns = Format::kSigned || Format::kHalves == 2;
    static constexpr std::size_t kVectors = (count + 1) / 2;
    DotInts quants[kVectors];      // of pairs: the first halves of four groups, then their second; else two groups
    __mmask64 negative[kVectors];  // where they have signs, which the quants have not

    explicit DotWeights(const std::byte* block) {
#pragma GCC unroll 4
        for (std::size_t i = 0; i < kVectors; ++i) {
            if constexpr (kPairs && count == 8)
                quants[i] =
                    half_of(two_vectors(Format::pair(block, i / 2 * 4), Format::pair(block, i / 2 * 4 + 2)), i % 2);
            else if constexpr (kPairs)
                quants[i] = two_vectors(half_of(Format::pair(block, 0), 0), half_of(Format::pair(block, 0), 1));
            else
                quants[i] = two_vectors(one(block, 2 * i), count == 1 ? Ints{} : one(block, 2 * i + 1));
            if constexpr (kHasSigns) {
                negative[i] = _mm512_movepi8_mask((__m512i)quants[i]);
                quants[i] = (DotInts)_mm512_maskz_abs_epi8(~__mmask64{0}, (__m512i)quants[i]);
            }
        }
    }

    /// `sum` and their products with a row of x, whose quants are of_x. scales: of `count` groups, of their first halves and their second.
    DotFloats add(DotFloats sum, const std::int8_t* of_x, const Floats* scales) const {
        if constexpr (kPairs && count == 8) {
            sum += as_floats(times(1, times(0, DotInts{}, of_x), of_x)) * spread_scales<0, 4, 4>(scales[0]);
            return sum + as_floats(times(3, times(2, DotInts{}, of_x), of_x)) * spread_scales<4, 4, 4>(scales[0]);
        } else if constexpr (kPairs) {
            return sum + as_floats(times(0, DotInts{}, of_x)) * spread_scales<0, 4, 2>(scales[0]);
        } else if constexpr (count == 1) {
            return sum + as_floats(times(0, DotInts{}, of_x)) * spread_scales<0, 16, 1>(scales[0]);
        } else {
            sum += as_floats(times(0, DotInts{}, of_x)) * scale_of<0>(scales);
            sum += as_floats(times(1, DotInts{}, of_x)) * scale_of<2>(scales);
            sum += as_floats(times(2, DotInts{}, of_x)) * scale_of<4>(scales);
            return sum + as_floats(times(3, DotInts{}, of_x)) * scale_of<6>(scales);
        }
    }

private:
    static DotInts half_of(DotInts bytes, std::size_t half) { return (DotInts)nibbles_of((DotWords)bytes, half); }
    static Ints half_of(Ints bytes, std::size_t half) { return (Ints)nibbles_of((Words)bytes, half); }
    static Ints one(const std::byte* block, std::size_t g) {
        const Ints made = Format::quants(block, g);
        return Format::kHalves == 2 ? minus_in_bytes<Format::kOffset>(made) : made;
    }
    static DotFloats as_floats(DotInts products) { return __builtin_convertvector(products, DotFloats); }
    template <int first>
    static DotFloats scale_of(const Floats* scales) {
        if constexpr (Format::kHalves == 2) return spread_halves<first>(scales[0], scales[1]);
        return spread_scales<first, 8, 2>(scales[0]);
    }
    /// sums += vector i times its part of a row of x.
    DotInts times(std::size_t i, DotInts sums, const std::int8_t* of_x) const {
        DotInts x;
        if constexpr (count == 1)
            x = two_vectors(load<Ints>(of_x), Ints{});
        else
            x = load<DotInts>(of_x + i * sizeof(DotInts));
        if constexpr (kHasSigns)
            x = (DotInts)_mm512_mask_sub_epi8((__m512i)x, negative[i], _mm512_setzero_si512(), (__m512i)x);
        return Lanes<16>::add(sums, quants[i], x);
    }
};

inline DotLanes dot_lanes(DotFloats products, Floats minimums) {
    return __builtin_shufflevector(products, products, 0, 1, 2, 3, 4, 5, 6, 7) +
           __builtin_shufflevector(products, products, 8, 9, 10, 11, 12, 13, 14, 15) - minimums;
}
#else
using DotFloats = Floats;

inline void exchange_eight(std::int8_t* quants) {
    for (std::size_t g = 0; g < 8; g += 2) exchange_halves(quants + g * kGroup);
}

/// The first over lanes 0 … 3, the second over lanes 4 … 7.
inline Floats two_scales(const float* first, const float* second) {
    return (Floats)_mm256_blend_ps(_mm256_broadcast_ss(first), _mm256_broadcast_ss(second), 0xF0);
}

/// sum += a group's products times its scale, or where it has two halves, theirs.
template <std::size_t halves, bool is_signed>
inline void add_group(DotFloats& sum, Ints quants, Ints of_x, const float* scale, const float* second_scale) {
    const Ints products = is_signed ? add_signed_products(Ints{}, quants, of_x) : add_products(Ints{}, quants, of_x);
    sum += as_numbers(products) * (halves == 2 ? two_scales(scale, second_scale) : (Floats)_mm256_broadcast_ss(scale));
}

/// The same of two groups, of which `first` and of_x have the first halves; their scales are neighbours.
inline void add_pair(DotFloats& sum, Ints first, Ints second, const std::int8_t* of_x, const float* scales) {
#ifdef VKFORMER_HAS_AVX_VNNI
    const Ints products =
        add_products(add_products(Ints{}, first, load<Ints>(of_x)), second, load<Ints>(of_x + kGroup));
#else
    // A pair has nibbles: sums of four products fit 16 bits.
    const __m256i fours = _mm256_add_epi16(_mm256_maddubs_epi16((__m256i)first, load<__m256i>(of_x)),
                                           _mm256_maddubs_epi16((__m256i)second, load<__m256i>(of_x + kGroup)));
    const Ints products = (Ints)_mm256_madd_epi16(fours, _mm256_set1_epi16(1));
#endif
    sum += as_numbers(products) * two_scales(&scales[0], &scales[1]);
}

inline DotLanes dot_lanes(DotFloats products, Floats minimums) { return products - minimums; }
#endif

/// Of each half of four vectors the sums.
inline __m256 sums_of_four(const DotLanes* lanes) {
    return _mm256_hadd_ps(_mm256_hadd_ps((__m256)lanes[0], (__m256)lanes[1]),
                          _mm256_hadd_ps((__m256)lanes[2], (__m256)lanes[3]));
}

/// A lane for the sum of each.
inline Floats sums_of(const DotLanes (&lanes)[kDotColumns]) {
    const __m256 first = sums_of_four(lanes), second = sums_of_four(lanes + 4);
    return (Floats)_mm256_permute2f128_ps(first, second, 0x20) + (Floats)_mm256_permute2f128_ps(first, second, 0x31);
}

// ---- more rows of x ------------------------------------------------------------------------------------------------------------

constexpr std::size_t kTileBytes = 4, kPanelBytes = kGroup;  // neighbours of a row that lie together

template <class P, std::size_t size>
void add_tile_of(const std::byte* tile, std::size_t rows, const std::byte* panel, std::size_t columns,
                 std::size_t groups, const Ahead& ahead, float* y, std::size_t stride) {
    using Rows = Lanes<size>;
    using Integers = typename Rows::Integers;
    using Numbers = typename Rows::Numbers;
    constexpr std::size_t kWords = kGroup / 4 / P::kHalves;  // of four products, that share a scale
    Numbers sums[kPanelColumns];
    clear(sums);
    for (std::size_t g = 0; g < groups; ++g, panel += P::kBytes, tile += size * P::kTileRowBytes) {
        for (std::size_t i = 0; i < ahead.group_bytes; i += 64)
            __builtin_prefetch(ahead.from + g * ahead.group_bytes + i, 0, 2);
        const std::byte *const of_x = tile + size * kGroup, *const scales = panel + P::kQuants;
        const auto scale_of_x = load<Numbers>(of_x);
#pragma GCC unroll 2
        for (std::size_t h = 0; h < P::kHalves; ++h) {
            Integers products[kPanelColumns];
            const auto begin = P::kMinimum ? Integers{} : load<Integers>(of_x + (1 + h) * sizeof(Numbers));
#pragma GCC unroll 8
            for (Integers& sum : products) sum = begin;
#pragma GCC unroll 8
            for (std::size_t k = h * kWords; k < (h + 1) * kWords; ++k) {
                const auto x = load<Integers>(tile + k * sizeof(Integers));
#pragma GCC unroll 8
                for (std::size_t c = 0; c < kPanelColumns; ++c) {
                    const Integers w = Rows::all(load<std::int32_t>(panel + c * kGroup + 4 * k));
                    if constexpr (P::kSigned)
                        products[c] = Rows::add_signed(products[c], w, x);
                    else
                        products[c] = Rows::add(products[c], w, x);
                }
            }
#pragma GCC unroll 8
            for (std::size_t c = 0; c < kPanelColumns; ++c)
                sums[c] += __builtin_convertvector(products[c], Numbers) *
                           (scale_of_x * load<float>(scales + h * P::kScales + c * sizeof(float)));
        }
        if constexpr (P::kMinimum) {
            const auto total = load<Numbers>(of_x + sizeof(Numbers));
#pragma GCC unroll 8
            for (std::size_t c = 0; c < kPanelColumns; ++c)
                sums[c] -= total * load<float>(scales + P::kScales + c * sizeof(float));
        }
    }
    for (std::size_t first = 0; first < rows; first += 8) {
        Ints eight[8];
        for (std::size_t c = 0; c < 8; ++c) eight[c] = load<Ints>(reinterpret_cast<const float*>(&sums[c]) + first);
        transpose(eight);
        for (std::size_t r = 0; r < 8 && first + r < rows; ++r)
            add_to_row((Floats)eight[r], columns, y + (first + r) * stride);
    }
}
