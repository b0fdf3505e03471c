// SPDX-License-Identifier: MIT
// What int8_kernels.inl needs of aarch64 with NEON. VKFORMER_HAS_DOT_PRODUCTS: instructions that add four products of bytes to each of four
// lanes; VKFORMER_HAS_INT8_MATRICES: these, and instructions that add the products of two rows of eight bytes with two columns of them.
//
// All of them multiply signed bytes: what a format takes away from its quants is taken from them in a panel. Dot products read quants of
// 15 or 31 at most as they are, and take it from the sum (minimum · d · Σ q of x).

inline float half_at(const std::byte* from) { return static_cast<float>(load<__fp16>(from)); }

/// sums[lane] += Σ of some products of w and s. Without the instruction for it, sums of two products must fit 16 bits, and those of −128 and
/// −127 to 127 do; which lanes it is that a product is added to is then not said.
inline FourInts add_products(FourInts sums, FourInts w, FourInts s) {
#ifdef VKFORMER_HAS_DOT_PRODUCTS
    return (FourInts)vdotq_s32((int32x4_t)sums, (int8x16_t)w, (int8x16_t)s);
#else
    const int16x8_t products = vmull_s8(vget_low_s8((int8x16_t)w), vget_low_s8((int8x16_t)s));
    return (FourInts)vpadalq_s16((int32x4_t)sums, vmlal_high_s8(products, (int8x16_t)w, (int8x16_t)s));
#endif
}

// ---- formats -------------------------------------------------------------------------------------------------------------------

inline Floats first_lanes(float first, float second) { return {FourFloats{first, second}, FourFloats{}}; }

/// d of `count` blocks that lie `bytes` apart: 8; or 2 or 1, and zeros.
template <std::size_t count>
inline Floats block_scales(const std::byte* block, std::size_t bytes) {
    if constexpr (count <= 2) return first_lanes(half_at(block), count == 2 ? half_at(block + bytes) : 0);
    const auto half = [&](std::size_t i) { return load<std::uint16_t>(block + i * bytes); };
    const uint16x4_t lower = {half(0), half(1), half(2), half(3)}, upper = {half(4), half(5), half(6), half(7)};
    return {(FourFloats)vcvt_f32_f16(vreinterpret_f16_u16(lower)),
            (FourFloats)vcvt_f32_f16(vreinterpret_f16_u16(upper))};
}

/// Sixteen bytes of nibbles, the lower ones first: a byte each.
inline Ints nibble_bytes(const std::byte* from) {
    const auto nibbles = load<uint8x16_t>(from);
    return {(FourInts)(nibbles & 15), (FourInts)(nibbles >> 4)};
}

/// What they stand for.
inline Ints table_bytes(Ints nibbles, const std::int8_t* numbers) {
    const auto table = load<uint8x16_t>(numbers);
    return {(FourInts)vqtbl1q_u8(table, (uint8x16_t)nibbles.lower),
            (FourInts)vqtbl1q_u8(table, (uint8x16_t)nibbles.upper)};
}

/// Bit i of 32 as 16 in byte i, or 0.
inline Ints fifth_bits(std::int32_t bits) {
    const uint8x16_t all = (uint8x16_t)vdupq_n_s32(bits);
    const uint8x16_t places = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t first = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    const auto spread = [&](uint8x16_t of_bytes) {
        return (FourInts)(vtstq_u8(vqtbl1q_u8(all, of_bytes), places) & 16);
    };
    return {spread(first), spread(first + 2)};
}

/// The signed bytes with even and with odd places of sixteen.
struct EvenOdd {
    Ints even, odd;
};
inline EvenOdd even_odd_bytes(const std::byte* from) {
    const auto both = load<int16x8_t>(from);
    const auto widened = [](int16x8_t eight) {
        return Ints{(FourInts)vmovl_s16(vget_low_s16(eight)), (FourInts)vmovl_high_s16(eight)};
    };
    return {widened(vshrq_n_s16(vshlq_n_s16(both, 8), 8)), widened(vshrq_n_s16(both, 8))};
}

template <int offset>
inline Ints minus_in_bytes(Ints bytes) {
    return {(FourInts)((int8x16_t)bytes.lower - (std::int8_t)offset),
            (FourInts)((int8x16_t)bytes.upper - (std::int8_t)offset)};
}

// ---- activations ---------------------------------------------------------------------------------------------------------------

struct QuantizedGroup {
    float scale;
    std::int32_t sums[2];  // of the quants, by halves
};

inline QuantizedGroup quantize_group(const float* x, std::int8_t* quants) {
    FourFloats values[8];
    for (std::size_t i = 0; i < 8; ++i) values[i] = load<FourFloats>(x + 4 * i);
    // The bits of magnitudes are in their order, and those of NaN above all others.
    int32x4_t most = vdupq_n_s32(0);
    for (std::size_t i = 0; i < 8; ++i) most = vmaxq_s32(most, (int32x4_t)((FourInts)values[i] & 0x7FFFFFFF));
    const float largest = bits_to_float(static_cast<std::uint32_t>(vmaxvq_s32(most)));

    const float inverse = largest >= 0x1p-100f ? 127 / largest : 0;
    QuantizedGroup group = {largest / 127, {}};
    for (std::size_t half = 0; half < 2; ++half) {
        const auto rounded = [&](std::size_t i) {
            return vqmovn_s32(vcvtnq_s32_f32((float32x4_t)(inverse * values[4 * half + i])));
        };
        const int8x16_t bytes = vcombine_s8(vqmovn_s16(vcombine_s16(rounded(0), rounded(1))),
                                            vqmovn_s16(vcombine_s16(rounded(2), rounded(3))));
        __builtin_memcpy(quants + 16 * half, &bytes, sizeof bytes);
        group.sums[half] = vaddlvq_s8(bytes);
    }
    return group;
}

// ---- few rows of x -------------------------------------------------------------------------------------------------------------

constexpr bool kHasPairs = false;
constexpr std::size_t kDotRows = 2, kLeftOverRows = 0;
using DotFloats = FourFloats;
using DotLanes = FourFloats;
inline Ints two_of_sixteen(const std::byte*, const std::byte*) { return Ints{}; }
inline void exchange_halves(std::int8_t*) {}
inline void exchange_eight(std::int8_t*) {}
inline void add_pair(DotFloats&, Ints, Ints, const std::int8_t*, const float*) {}

inline FourFloats as_numbers(FourInts integers) { return __builtin_convertvector(integers, FourFloats); }

/// sum += a group's products times its scale, or where it has two halves, theirs.
template <std::size_t halves, bool>
inline void add_group(DotFloats& sum, Ints quants, Ints of_x, const float* scale, const float* second_scale) {
    const FourInts first = add_products(FourInts{}, quants.lower, of_x.lower);
    if constexpr (halves == 2) {
        sum += as_numbers(first) * *scale;
        sum += as_numbers(add_products(FourInts{}, quants.upper, of_x.upper)) * *second_scale;
    } else {
        sum += as_numbers(add_products(first, quants.upper, of_x.upper)) * *scale;
    }
}

inline DotFloats dot_lanes(DotFloats products, Floats minimums) {
    return products - (minimums.lower + minimums.upper);
}

inline FourFloats sums_of_four(const DotFloats* lanes) {
    return (FourFloats)vpaddq_f32(vpaddq_f32((float32x4_t)lanes[0], (float32x4_t)lanes[1]),
                                  vpaddq_f32((float32x4_t)lanes[2], (float32x4_t)lanes[3]));
}

/// A lane for the sum of each.
inline Floats sums_of(const DotFloats (&lanes)[kDotColumns]) { return {sums_of_four(lanes), sums_of_four(lanes + 4)}; }

// ---- more rows of x ------------------------------------------------------------------------------------------------------------

constexpr std::size_t kPanelColumns = 8;

/// Which quants of a panel have signs.
enum class Signs { none, as_format, all };
constexpr Signs kPanelSigns = Signs::all;

#ifdef VKFORMER_HAS_INT8_MATRICES
// Of a tile and of a panel the bytes of eight neighbours of two rows are a vector. A vector of sums: two columns of a row of x, then the
// same of the next row. The sums of four rows and eight columns take sixteen registers.
constexpr std::size_t kTileRows = 4, kSmallTileRows = 2, kTileBytes = 8, kPanelBytes = 8;

/// A number of each of eight columns, as they lie in the vectors of sums.
struct ColumnPairs {
    FourFloats pairs[4];
    explicit ColumnPairs(const std::byte* from) {
        const auto lower = load<FourFloats>(from), upper = load<FourFloats>(from + sizeof(FourFloats));
        pairs[0] = __builtin_shufflevector(lower, lower, 0, 1, 0, 1);
        pairs[1] = __builtin_shufflevector(lower, lower, 2, 3, 2, 3);
        pairs[2] = __builtin_shufflevector(upper, upper, 0, 1, 0, 1);
        pairs[3] = __builtin_shufflevector(upper, upper, 2, 3, 2, 3);
    }
};

/// A number of each of two rows, as they lie in the vectors of sums.
inline FourFloats row_pair(const std::byte* from) {
    const float first = load<float>(from), second = load<float>(from + sizeof(float));
    return FourFloats{first, first, second, second};
}

template <class P, std::size_t size>
void add_tile_of(const std::byte* tile, std::size_t rows, const std::byte* panel, std::size_t columns,
                 std::size_t groups, const Ahead&, float* y, std::size_t stride) {
    constexpr std::size_t kPairs = size / 2, kEights = 4 / P::kHalves;  // of eight products, that share a scale
    FourFloats sums[kPairs][4] = {};
    for (std::size_t g = 0; g < groups; ++g, panel += P::kBytes, tile += size * P::kTileRowBytes) {
        const std::byte* const of_x = tile + size * kGroup;
#pragma GCC unroll 2
        for (std::size_t h = 0; h < P::kHalves; ++h) {
            FourInts products[kPairs][4] = {};
#pragma GCC unroll 4
            for (std::size_t k = h * kEights; k < (h + 1) * kEights; ++k) {
                int8x16_t quants[4];
#pragma GCC unroll 4
                for (std::size_t c = 0; c < 4; ++c)
                    quants[c] = load<int8x16_t>(panel + (k * kPanelColumns + 2 * c) * 8);
#pragma GCC unroll 4
                for (std::size_t r = 0; r < kPairs; ++r) {
                    const auto x = load<int8x16_t>(tile + (k * size + 2 * r) * 8);
#pragma GCC unroll 4
                    for (std::size_t c = 0; c < 4; ++c)
                        products[r][c] = (FourInts)vmmlaq_s32((int32x4_t)products[r][c], x, quants[c]);
                }
            }
            const ColumnPairs scales(panel + P::kQuants + h * P::kScales);
#pragma GCC unroll 4
            for (std::size_t r = 0; r < kPairs; ++r) {
                const FourFloats of_rows = row_pair(of_x + 2 * r * sizeof(float));
#pragma GCC unroll 4
                for (std::size_t c = 0; c < 4; ++c)
                    sums[r][c] += as_numbers(products[r][c]) * (scales.pairs[c] * of_rows);
            }
        }
        if constexpr (P::kMinimum) {
            const ColumnPairs minimums(panel + P::kQuants + P::kScales);
#pragma GCC unroll 4
            for (std::size_t r = 0; r < kPairs; ++r) {
                const FourFloats of_rows = row_pair(of_x + (size + 2 * r) * sizeof(float));
#pragma GCC unroll 4
                for (std::size_t c = 0; c < 4; ++c) sums[r][c] -= minimums.pairs[c] * of_rows;
            }
        }
    }
    for (std::size_t r = 0; r < rows; ++r) {
        const FourFloats* const pairs = sums[r / 2];
        const Floats first = {__builtin_shufflevector(pairs[0], pairs[1], 0, 1, 4, 5),
                              __builtin_shufflevector(pairs[2], pairs[3], 0, 1, 4, 5)};
        const Floats second = {__builtin_shufflevector(pairs[0], pairs[1], 2, 3, 6, 7),
                               __builtin_shufflevector(pairs[2], pairs[3], 2, 3, 6, 7)};
        add_to_row(r % 2 == 0 ? first : second, columns, y + r * stride);
    }
}
#else
// A tile's vectors: a lane is a row of x. The sums of eight rows and four columns, those of one scale as integers beside those of all as
// floats, take sixteen registers.
constexpr std::size_t kTileRows = 8, kSmallTileRows = 4, kTileBytes = 4, kPanelBytes = kGroup;

/// sums[row] += Σ of four products of the row's bytes of x and word `word` of w.
template <int word>
inline FourInts add_word(FourInts sums, int8x16_t x, int8x16_t w) {
#ifdef VKFORMER_HAS_DOT_PRODUCTS
    return (FourInts)vdotq_laneq_s32((int32x4_t)sums, x, w, word);
#else
    const int8x16_t words = (int8x16_t)vdupq_laneq_s32((int32x4_t)w, word);
    const int16x8_t lower = vmull_s8(vget_low_s8(x), vget_low_s8(words)), upper = vmull_high_s8(x, words);
    return (FourInts)vpadalq_s16((int32x4_t)sums, vpaddq_s16(lower, upper));
#endif
}

template <int word, std::size_t vectors>
inline void add_words(FourInts (&products)[4][vectors], const std::byte* tile, const int8x16_t* w) {
#pragma GCC unroll 2
    for (std::size_t v = 0; v < vectors; ++v) {
        const auto x = load<int8x16_t>(tile + (word * vectors + v) * 16);
#pragma GCC unroll 4
        for (std::size_t c = 0; c < 4; ++c) products[c][v] = add_word<word>(products[c][v], x, w[c]);
    }
}

/// The sums of four columns from `first` on: [column][vector of rows].
template <class P, std::size_t vectors>
inline void tile_sums(const std::byte* tile, const std::byte* panel, std::size_t first, std::size_t groups,
                      FourFloats (&sums)[4][vectors]) {
    constexpr std::size_t kRows = 4 * vectors, kSixteens = 2 / P::kHalves;  // of sixteen elements, that share a scale
    for (std::size_t g = 0; g < groups; ++g, panel += P::kBytes, tile += kRows * P::kTileRowBytes) {
        const std::byte* const of_x = tile + kRows * kGroup;
        const std::byte* const scales = panel + P::kQuants + first * sizeof(float);
#pragma GCC unroll 2
        for (std::size_t h = 0; h < P::kHalves; ++h) {
            FourInts products[4][vectors] = {};
#pragma GCC unroll 2
            for (std::size_t k = h * kSixteens; k < (h + 1) * kSixteens; ++k) {
                int8x16_t w[4];
#pragma GCC unroll 4
                for (std::size_t c = 0; c < 4; ++c) w[c] = load<int8x16_t>(panel + (first + c) * kGroup + k * 16);
                const std::byte* const words = tile + k * 16 * kRows;
                add_words<0>(products, words, w), add_words<1>(products, words, w);
                add_words<2>(products, words, w), add_words<3>(products, words, w);
            }
#pragma GCC unroll 2
            for (std::size_t v = 0; v < vectors; ++v) {
                const auto scale = load<FourFloats>(of_x + v * sizeof(FourFloats));
#pragma GCC unroll 4
                for (std::size_t c = 0; c < 4; ++c)
                    sums[c][v] +=
                        as_numbers(products[c][v]) * (scale * load<float>(scales + h * P::kScales + c * sizeof(float)));
            }
        }
        if constexpr (P::kMinimum)
#pragma GCC unroll 2
            for (std::size_t v = 0; v < vectors; ++v) {
                const auto total = load<FourFloats>(of_x + kRows * sizeof(float) + v * sizeof(FourFloats));
#pragma GCC unroll 4
                for (std::size_t c = 0; c < 4; ++c)
                    sums[c][v] -= total * load<float>(scales + P::kScales + c * sizeof(float));
            }
    }
}

template <class P, std::size_t size>
void add_tile_of(const std::byte* tile, std::size_t rows, const std::byte* panel, std::size_t columns,
                 std::size_t groups, const Ahead&, float* y, std::size_t stride) {
    FourFloats sums[2][4][size / 4] = {};  // of columns 0 … 3 and 4 … 7
    for (std::size_t half = 0; half < 2 && 4 * half < columns; ++half)
        tile_sums<P>(tile, panel, 4 * half, groups, sums[half]);
    for (std::size_t first = 0; first < rows; first += 4) {
        FourInts fours[2][4];
        for (std::size_t half = 0; half < 2; ++half) {
            for (std::size_t c = 0; c < 4; ++c) fours[half][c] = (FourInts)sums[half][c][first / 4];
            transpose(fours[half]);
        }
        for (std::size_t r = 0; r < 4 && first + r < rows; ++r)
            add_to_row({(FourFloats)fours[0][r], (FourFloats)fours[1][r]}, columns, y + (first + r) * stride);
    }
}
#endif
