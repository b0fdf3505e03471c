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

/// d of `count` blocks that lie `bytes` apart: 8, or 1 and zeros.
template <std::size_t count>
inline Floats block_scales(const std::byte* block, std::size_t bytes) {
    if constexpr (count == 1) return Floats{{half_at(block)}, {}};
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
using DotFloats = FourFloats;
inline Ints two_of_sixteen(const std::byte*, const std::byte*) { return Ints{}; }
inline void exchange_halves(std::int8_t*) {}
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

inline float dot_sum(DotFloats products, Floats minimums) {
    return sum_of(products - (minimums.lower + minimums.upper));
}

// ---- many rows of x ------------------------------------------------------------------------------------------------------------
// The sums of four rows and eight columns, those of one scale as integers beside those of all as floats, take sixteen registers.

constexpr std::size_t kPanelColumns = 8, kTileRows = 4, kSmallTileRows = 2;

/// Which quants of a panel have signs.
enum class Signs { none, as_format, all };
constexpr Signs kPanelSigns = Signs::all;

/// y[0 … columns − 1] += the sums of eight columns.
inline void add_to_row(Floats sums, std::size_t columns, float* y) {
    if (columns == kPanelColumns) return store(y, load<Floats>(y) + sums);
    float numbers[kPanelColumns];
    store(numbers, sums);
    for (std::size_t c = 0; c < columns; ++c) y[c] += numbers[c];
}

#ifdef VKFORMER_HAS_INT8_MATRICES
// A tile's quants: [4][rows][8], a panel's: [4][8][8], of both the bytes of eight neighbours of two rows a vector. A vector of sums: two
// columns of a row of x, then the same of the next row.

inline void put_in_tile(const std::int8_t* quants, std::size_t row, std::size_t size, std::byte* tile) {
    for (std::size_t k = 0; k < 4; ++k) __builtin_memcpy(tile + (k * size + row) * 8, quants + 8 * k, 8);
}

/// The quants of eight columns.
inline void put_in_panel(const Ints* columns, std::byte* panel) {
    using Eights = std::int64_t __attribute__((vector_size(16)));
    for (std::size_t c = 0; c < kPanelColumns; c += 2)
        for (std::size_t half = 0; half < 2; ++half) {
            const auto first = (Eights)(half == 0 ? columns[c].lower : columns[c].upper);
            const auto second = (Eights)(half == 0 ? columns[c + 1].lower : columns[c + 1].upper);
            const Eights pairs[] = {__builtin_shufflevector(first, second, 0, 2),
                                    __builtin_shufflevector(first, second, 1, 3)};
            for (std::size_t k = 0; k < 2; ++k)
                __builtin_memcpy(panel + ((2 * half + k) * kPanelColumns + c) * 8, &pairs[k], sizeof pairs[k]);
        }
}

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
                 std::size_t groups, float* y, std::size_t stride) {
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
inline void put_in_tile(const std::int8_t* quants, std::size_t row, std::size_t, std::byte* tile) {
    __builtin_memcpy(tile + row * kGroup, quants, kGroup);
}

/// The quants of eight columns.
inline void put_in_panel(Ints* columns, std::byte* panel) {
    transpose(columns);
    for (std::size_t i = 0; i < 8; ++i) {
        __builtin_memcpy(panel + i * sizeof(Ints), &columns[i].lower, sizeof(FourInts));
        __builtin_memcpy(panel + i * sizeof(Ints) + sizeof(FourInts), &columns[i].upper, sizeof(FourInts));
    }
}

/// sums[column] += Σ of four products of the column's quants and word `word` of x.
template <int word>
inline FourInts add_word(FourInts sums, int8x16_t quants, int8x16_t x) {
#ifdef VKFORMER_HAS_DOT_PRODUCTS
    return (FourInts)vdotq_laneq_s32((int32x4_t)sums, quants, x, word);
#else
    const int8x16_t words = (int8x16_t)vdupq_laneq_s32((int32x4_t)x, word);
    const int16x8_t lower = vmull_s8(vget_low_s8(quants), vget_low_s8(words)), upper = vmull_high_s8(quants, words);
    return (FourInts)vpadalq_s16((int32x4_t)sums, vpaddq_s16(lower, upper));
#endif
}

template <int word, std::size_t size>
inline void add_words(FourInts (&products)[size][2], const std::byte* panel, const int8x16_t* x) {
    const auto lower = load<int8x16_t>(panel + word * 32), upper = load<int8x16_t>(panel + word * 32 + 16);
#pragma GCC unroll 4
    for (std::size_t r = 0; r < size; ++r) {
        products[r][0] = add_word<word>(products[r][0], lower, x[r]);
        products[r][1] = add_word<word>(products[r][1], upper, x[r]);
    }
}

template <class P, std::size_t size>
void add_tile_of(const std::byte* tile, std::size_t rows, const std::byte* panel, std::size_t columns,
                 std::size_t groups, float* y, std::size_t stride) {
    constexpr std::size_t kVectors = 2 / P::kHalves;  // of sixteen elements, that share a scale
    FourFloats sums[size][2] = {};
    for (std::size_t g = 0; g < groups; ++g, panel += P::kBytes, tile += size * P::kTileRowBytes) {
        const std::byte* const of_x = tile + size * kGroup;
#pragma GCC unroll 2
        for (std::size_t h = 0; h < P::kHalves; ++h) {
            FourInts products[size][2] = {};
#pragma GCC unroll 2
            for (std::size_t k = h * kVectors; k < (h + 1) * kVectors; ++k) {
                int8x16_t x[size];
#pragma GCC unroll 4
                for (std::size_t r = 0; r < size; ++r) x[r] = load<int8x16_t>(tile + r * kGroup + k * 16);
                const std::byte* const words = panel + k * 4 * 32;
                add_words<0>(products, words, x), add_words<1>(products, words, x);
                add_words<2>(products, words, x), add_words<3>(products, words, x);
            }
            const auto scales = load<Floats>(panel + P::kQuants + h * P::kScales);
#pragma GCC unroll 4
            for (std::size_t r = 0; r < size; ++r) {
                const auto of_row = load<float>(of_x + r * sizeof(float));
                sums[r][0] += as_numbers(products[r][0]) * (scales.lower * of_row);
                sums[r][1] += as_numbers(products[r][1]) * (scales.upper * of_row);
            }
        }
        if constexpr (P::kMinimum) {
            const auto minimums = load<Floats>(panel + P::kQuants + P::kScales);
#pragma GCC unroll 4
            for (std::size_t r = 0; r < size; ++r) {
                const auto of_row = load<float>(of_x + (size + r) * sizeof(float));
                sums[r][0] -= minimums.lower * of_row;
                sums[r][1] -= minimums.upper * of_row;
            }
        }
    }
    for (std::size_t r = 0; r < rows; ++r) add_to_row({sums[r][0], sums[r][1]}, columns, y + r * stride);
}
#endif
