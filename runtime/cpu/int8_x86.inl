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

/// Which quants of a panel have signs: none; those of formats that have them, whose products with a sign would not fit 16 bits.
enum class Signs { none, as_format, all };
#if defined(VKFORMER_HAS_AVX512_VNNI) || defined(VKFORMER_HAS_AVX_VNNI)
constexpr Signs kPanelSigns = Signs::none;
#else
constexpr Signs kPanelSigns = Signs::as_format;
#endif

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
using DotFloats = Floats;

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
    const Ints products =
        add_products(add_products(Ints{}, first, load<Ints>(of_x)), second, load<Ints>(of_x + kGroup));
    sum += as_numbers(products) * two_scales(&scales[0], &scales[1]);
}

inline float dot_sum(DotFloats products, Floats minimums) { return sum_of(products - minimums); }

// ---- many rows of x ------------------------------------------------------------------------------------------------------------

inline void put_in_tile(const std::int8_t* quants, std::size_t row, std::size_t, std::byte* tile) {
    __builtin_memcpy(tile + row * kGroup, quants, kGroup);
}

/// The quants of eight columns.
inline void put_in_panel(Ints* columns, std::byte* panel) {
    transpose(columns);
    for (std::size_t i = 0; i < 8; ++i) __builtin_memcpy(panel + i * kPanelColumns * 4, &columns[i], sizeof columns[i]);
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
