// SPDX-License-Identifier: MIT
// FloatPanelKernels; see vectors.inl. With VKFORMER_PAIRS its elements are pairs of bfloat16, the first in the lower half of a float's bits:
// a product is that of the first ones and that of the second ones together.
#include "cpu/vectors.inl"

// The sums of four or eight rows by three vectors of columns, a row of the panel and a number of x fill the registers.
// Interleaved: rows that are interleaved at once.
#if defined(VKFORMER_HAS_AVX512)
using PanelFloats = float __attribute__((vector_size(64)));
using Interleaved = Ints;
constexpr std::size_t kPanelLanes = 16, kPanelVectors = 3, kRowsAtOnce = 8;
#elif defined(VKFORMER_HAS_AVX2)
using PanelFloats = Floats;
using Interleaved = Ints;
constexpr std::size_t kPanelLanes = 8, kPanelVectors = 3, kRowsAtOnce = 4;
#elif defined(VKFORMER_HAS_NEON)
using PanelFloats = FourFloats;
using Interleaved = FourInts;
constexpr std::size_t kPanelLanes = 4, kPanelVectors = 3, kRowsAtOnce = 8;
#else
using PanelFloats = FourFloats;
using Interleaved = FourInts;
constexpr std::size_t kPanelLanes = 4, kPanelVectors = 3, kRowsAtOnce = 4;
#endif
constexpr std::size_t kFloatPanelColumns = kPanelVectors * kPanelLanes;
constexpr std::size_t kInterleaved = sizeof(Interleaved) / sizeof(float);

/// sums += x · w
#if defined(VKFORMER_PAIRS) && defined(VKFORMER_HAS_AVX512)
inline void add_multiplied(PanelFloats& sums, PanelFloats x, PanelFloats w) {
    sums = (PanelFloats)_mm512_dpbf16_ps((__m512)sums, (__m512bh)x, (__m512bh)w);
}
inline void add_multiplied(FourFloats& sums, FourFloats x, FourFloats w) {
    sums = (FourFloats)_mm_dpbf16_ps((__m128)sums, (__m128bh)x, (__m128bh)w);
}
inline void add_multiplied(PanelFloats& sums, float x, PanelFloats w) {
    add_multiplied(sums, (PanelFloats)_mm512_set1_ps(x), w);
}
inline void add_multiplied(FourFloats& sums, float x, FourFloats w) { add_multiplied(sums, (FourFloats)_mm_set1_ps(x), w); }
#elif defined(VKFORMER_PAIRS)
template <class Bits, class Vector>
inline void add_halves(Vector& sums, Bits x, Bits w) {
    sums += (Vector)(x << 16) * (Vector)(w << 16);
    sums += (Vector)(x & 0xFFFF0000u) * (Vector)(w & 0xFFFF0000u);
}
inline void add_multiplied(FourFloats& sums, FourFloats x, FourFloats w) { add_halves(sums, (FourWords)x, (FourWords)w); }
inline void add_multiplied(Floats& sums, Floats x, Floats w) { add_halves(sums, (Words)x, (Words)w); }
inline void add_multiplied(FourFloats& sums, float x, FourFloats w) { add_multiplied(sums, FourFloats{x, x, x, x}, w); }
#else
template <class X, class Vector>
inline void add_multiplied(Vector& sums, X x, Vector w) {
    sums += x * w;
}
#endif
#ifdef VKFORMER_PAIRS
inline float multiplied(float x, float w) {
    FourFloats sums = {};
    add_multiplied(sums, FourFloats{x, 0, 0, 0}, FourFloats{w, 0, 0, 0});
    return sums[0];
}
#else
inline float multiplied(float x, float w) { return x * w; }
#endif

/// Asks for rows that are read next, which may lie behind the matrix: they lie too far apart for processors to see what comes.
inline void prefetch(const float* rows, std::size_t first, std::size_t stride, std::size_t offset) {
    constexpr std::size_t kLineFloats = 16;
    if (offset % kLineFloats != 0) return;
    for (std::size_t r = first; r < first + kInterleaved; ++r)
        __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(rows) +
                                                         (r * stride + offset) * sizeof(float)));
}

inline void interleave(const float* rows, std::size_t stride, std::size_t count, std::size_t width, std::size_t depth,
                       float* out) {
    constexpr std::size_t kWhole = kPanelLanes > kFloatTileRows ? kPanelLanes : kFloatTileRows;
    const std::size_t wanted = (count + kWhole - 1) / kWhole * kWhole, end = wanted < width ? wanted : width;
    for (std::size_t first = 0; first < end; first += kInterleaved) {
        const bool is_whole = first + kInterleaved <= count;
        std::size_t i = 0;
        for (; i + kInterleaved <= depth; i += kInterleaved) {
            if (is_whole) prefetch(rows, first + kInterleaved, stride, i);
            Interleaved some[kInterleaved];
            for (std::size_t r = 0; r < kInterleaved; ++r)
                some[r] =
                    is_whole || first + r < count ? load<Interleaved>(rows + (first + r) * stride + i) : Interleaved{};
            transpose(some);
            for (std::size_t k = 0; k < kInterleaved; ++k)
                __builtin_memcpy(out + (i + k) * width + first, &some[k], sizeof some[k]);
        }
        for (; i < depth; ++i)
            for (std::size_t r = first; r < first + kInterleaved; ++r)
                out[i * width + r] = r < count ? rows[r * stride + i] : 0;
    }
}

#if defined(VKFORMER_HAS_NEON) && !defined(VKFORMER_PAIRS)
/// sums += x[lane] · w
template <int lane, std::size_t vectors>
inline void add_row(FourFloats x, const FourFloats (&w)[vectors], FourFloats (&sums)[vectors]) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) sums[v] = (FourFloats)vfmaq_laneq_f32(sums[v], w[v], x, lane);
}
#endif

/// kRowsAtOnce rows from the first of `tile` on, of which `rows` are stored, and no more than so many vectors of columns.
template <std::size_t vectors>
inline void add_rows(const float* tile, std::size_t rows, const float* panel, std::size_t columns, std::size_t depth,
                     float* y, std::size_t stride) {
    PanelFloats sums[kRowsAtOnce][vectors] = {};
    for (std::size_t i = 0; i < depth; ++i, tile += kFloatTileRows, panel += kFloatPanelColumns) {
        PanelFloats w[vectors];
#pragma GCC unroll 4
        for (std::size_t v = 0; v < vectors; ++v) w[v] = load<PanelFloats>(panel + v * kPanelLanes);
#ifdef VKFORMER_HAS_NEON
        const auto x = load<FourFloats>(tile), more = load<FourFloats>(tile + 4);
        add_row<0>(x, w, sums[0]), add_row<1>(x, w, sums[1]), add_row<2>(x, w, sums[2]), add_row<3>(x, w, sums[3]);
        add_row<0>(more, w, sums[4]), add_row<1>(more, w, sums[5]), add_row<2>(more, w, sums[6]),
            add_row<3>(more, w, sums[7]);
#else
#pragma GCC unroll 8
        for (std::size_t r = 0; r < kRowsAtOnce; ++r)
#pragma GCC unroll 4
            for (std::size_t v = 0; v < vectors; ++v) add_multiplied(sums[r][v], tile[r], w[v]);
#endif
    }
    if (columns < vectors * kPanelLanes) {
        float numbers[kRowsAtOnce][vectors * kPanelLanes];
        __builtin_memcpy(numbers, sums, sizeof numbers);
        for (std::size_t r = 0; r < rows && r < kRowsAtOnce; ++r)
            for (std::size_t c = 0; c < columns; ++c) y[r * stride + c] += numbers[r][c];
        return;
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRowsAtOnce; ++r) {
        if (r >= rows) break;
#pragma GCC unroll 4
        for (std::size_t v = 0; v < vectors; ++v) {
            float* const some = y + r * stride + v * kPanelLanes;
            const PanelFloats sum = load<PanelFloats>(some) + sums[r][v];
            __builtin_memcpy(some, &sum, sizeof sum);
        }
    }
}

inline void add_float_tile(const float* tile, std::size_t rows, const float* panel, std::size_t columns,
                           std::size_t depth, float* y, std::size_t stride) {
    static_assert(kPanelVectors == 3);
    const auto add = columns > 2 * kPanelLanes ? add_rows<3> : columns > kPanelLanes ? add_rows<2> : add_rows<1>;
    for (std::size_t r = 0; r < rows; r += kRowsAtOnce)
        add(tile + r, rows - r, panel, columns, depth, y + r * stride, stride);
}

/// Some rows from `row` on, and some vectors of columns from `column` on.
template <class Vector, std::size_t rows, std::size_t vectors>
inline void add_columns(const ProductOperands& o, std::size_t row, std::size_t column) {
    constexpr std::size_t lanes = sizeof(Vector) / sizeof(float);
    const float *const x = o.x + row * o.x_stride, *w = o.w + column;
    Vector sums[rows][vectors] = {};
    for (std::size_t i = 0; i < o.depth; ++i, w += o.w_stride) {
        Vector some[vectors];
#pragma GCC unroll 4
        for (std::size_t v = 0; v < vectors; ++v) some[v] = load<Vector>(w + v * lanes);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
            for (std::size_t v = 0; v < vectors; ++v) add_multiplied(sums[r][v], x[r * o.x_stride + i], some[v]);
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
        for (std::size_t v = 0; v < vectors; ++v) {
            float* const y = o.y + (row + r) * o.y_stride + column + v * lanes;
            const Vector sum = load<Vector>(y) + sums[r][v];
            __builtin_memcpy(y, &sum, sizeof sum);
        }
}

template <std::size_t rows>
inline void add_product_rows(const ProductOperands& o, std::size_t row) {
    std::size_t c = 0;
    // Four vectors are two and two: one alone reads more numbers than it multiplies.
    for (; c + 3 * kPanelLanes <= o.columns && (o.columns - c) / kPanelLanes != 4; c += 3 * kPanelLanes)
        add_columns<PanelFloats, rows, 3>(o, row, c);
    for (; c + 2 * kPanelLanes <= o.columns; c += 2 * kPanelLanes) add_columns<PanelFloats, rows, 2>(o, row, c);
    for (; c + kPanelLanes <= o.columns; c += kPanelLanes) add_columns<PanelFloats, rows, 1>(o, row, c);
    for (; c + kLeastColumns <= o.columns; c += kLeastColumns) add_columns<FourFloats, rows, 1>(o, row, c);
}

inline void add_float_product_in_place(const ProductOperands& o) {
    std::size_t row = 0;
    for (; row + kRowsAtOnce <= o.rows; row += kRowsAtOnce) add_product_rows<kRowsAtOnce>(o, row);
    for (; row + kLeastRows <= o.rows; row += kLeastRows) add_product_rows<kLeastRows>(o, row);
}

// ---- w where it lies, by rows -----------------------------------------------------------------------------------------------------

// Three rows of w and a number of sums that, with a vector of x, fill the registers; sixteen, four and one are two thirds of NEON's. Pairs
// come this way where a few keys are left over.
#if defined(VKFORMER_PAIRS)
constexpr std::size_t kTileRows = 1, kTileColumns = 1;
#elif defined(VKFORMER_HAS_AVX512)
constexpr std::size_t kTileRows = 8, kTileColumns = 3;
#elif defined(VKFORMER_HAS_AVX2)
constexpr std::size_t kTileRows = 4, kTileColumns = 3;
#elif defined(VKFORMER_HAS_NEON)
constexpr std::size_t kTileRows = 4, kTileColumns = 4;
#else
constexpr std::size_t kTileRows = 2, kTileColumns = 2;
#endif
#if defined(VKFORMER_HAS_AVX512) || defined(VKFORMER_HAS_NEON)
using TileFloats = PanelFloats;
#else
using TileFloats = Floats;
#endif
constexpr std::size_t kTileLanes = sizeof(TileFloats) / sizeof(float);
constexpr std::size_t kTilesAhead = 3;  // of columns, whose memory is asked for

/// Asks for element i of a row `offset` floats behind w where a line may begin with it. The row may lie behind the matrix: in a decoder's
/// cache the rows of a head lie too far apart for processors to see what comes.
inline void prefetch_row(const float* w, std::size_t offset, std::size_t i) {
    constexpr std::size_t kLineFloats = 16;
    if (i % kLineFloats != 0) return;
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(w) + (offset + i) * sizeof(float);
    __builtin_prefetch(reinterpret_cast<const void*>(address));
}

#ifdef VKFORMER_HAS_AVX512
/// Lane i is the sum of the lanes of vector i of eight.
inline Floats sums_of_eight(const TileFloats* vectors) {
    Floats sums[8];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i) {
        const auto* const lanes = reinterpret_cast<const char*>(vectors + i);
        sums[i] = load<Floats>(lanes) + load<Floats>(lanes + sizeof(Floats));
    }
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 8; i += 2)
        sums[i] = __builtin_shufflevector(sums[i], sums[i + 1], 0, 8, 2, 10, 4, 12, 6, 14) +
                  __builtin_shufflevector(sums[i], sums[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
#pragma GCC unroll 2
    for (std::size_t i = 0; i < 8; i += 4)
        sums[i] = __builtin_shufflevector(sums[i], sums[i + 2], 0, 1, 8, 9, 4, 5, 12, 13) +
                  __builtin_shufflevector(sums[i], sums[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    return __builtin_shufflevector(sums[0], sums[4], 0, 1, 2, 3, 8, 9, 10, 11) +
           __builtin_shufflevector(sums[0], sums[4], 4, 5, 6, 7, 12, 13, 14, 15);
}
#endif

/// y[row + r, column + c] += scale · what the lanes of a sum and the products of elements from `done` on are together, for tiles of all
/// sizes. sums: [rows, columns]
VKFORMER_SHARED_CODE inline void add_sums(const ProductOperands& o, std::size_t row, std::size_t rows,
                                          std::size_t column, std::size_t columns, const TileFloats* sums,
                                          std::size_t done) {
    float together[(kTileRows * kTileColumns + 7) / 8 * 8];
#ifdef VKFORMER_HAS_AVX512
    for (std::size_t i = 0; i < rows * columns; i += 8) store(together + i, sums_of_eight(sums + i));
#else
    for (std::size_t i = 0; i < rows * columns; ++i) together[i] = sum_of(sums[i]);
#endif
    const float* next = together;
    for (std::size_t r = row; r < row + rows; ++r)
        for (std::size_t c = column; c < column + columns; ++c) {
            float sum = *next++;
            for (std::size_t k = done; k < o.depth; ++k)
                sum += multiplied(o.x[r * o.x_stride + k], o.w[c * o.w_stride + k]);
            o.y[r * o.y_stride + c] += o.scale * sum;
        }
}

template <std::size_t rows, std::size_t columns>
inline void add_dots(const ProductOperands& o, std::size_t row, std::size_t column) {
    const float* const x = o.x + row * o.x_stride;
    const float* const w = o.w + column * o.w_stride;
    for (std::size_t r = 0; r < rows; ++r) __builtin_prefetch(o.y + (row + r) * o.y_stride + column, 1);
    TileFloats sums[rows][columns] = {};
    std::size_t i = 0;
    for (; i + kTileLanes <= o.depth; i += kTileLanes) {
        TileFloats ws[columns];
#pragma GCC unroll 4
        for (std::size_t c = 0; c < columns; ++c) {
            ws[c] = load<TileFloats>(w + c * o.w_stride + i);
            prefetch_row(w, (c + kTilesAhead * columns) * o.w_stride, i);
        }
#pragma GCC unroll 8
        for (std::size_t r = 0; r < rows; ++r) {
            const auto xs = load<TileFloats>(x + r * o.x_stride + i);
#pragma GCC unroll 4
            for (std::size_t c = 0; c < columns; ++c) add_multiplied(sums[r][c], xs, ws[c]);
        }
    }
    TileFloats in_memory[(rows * columns + 7) / 8 * 8];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
        for (std::size_t c = 0; c < columns; ++c) in_memory[r * columns + c] = sums[r][c];
    for (std::size_t rest = rows * columns; rest < sizeof in_memory / sizeof in_memory[0]; ++rest)
        in_memory[rest] = TileFloats{};
    add_sums(o, row, rows, column, columns, in_memory, i);
}

/// All rows of x times some of w, which a first cache keeps meanwhile.
template <std::size_t columns>
inline void add_columns_of_dots(const ProductOperands& o, std::size_t column) {
    std::size_t row = 0;
    for (; row + kTileRows <= o.rows; row += kTileRows) add_dots<kTileRows, columns>(o, row, column);
    if constexpr (kTileRows > 4)
        if (row + 4 <= o.rows) add_dots<4, columns>(o, row, column), row += 4;
    const std::size_t rest = o.rows - row;
    if constexpr (kTileRows >= 4) {
        if (rest == 3) return add_dots<3, columns>(o, row, column);
        if (rest == 2) return add_dots<2, columns>(o, row, column);
    }
    if (rest == 1) add_dots<1, columns>(o, row, column);
}

inline void add_transposed(const ProductOperands& o) {
    std::size_t column = 0;
    for (; column + kTileColumns <= o.columns; column += kTileColumns) add_columns_of_dots<kTileColumns>(o, column);
    for (; column < o.columns; ++column) add_columns_of_dots<1>(o, column);
}

#if defined(VKFORMER_HAS_AVX512)
constexpr std::size_t kRowsInPlace = 16, kRowsInCache = 32;
#elif defined(VKFORMER_HAS_AVX2)
constexpr std::size_t kRowsInPlace = 24, kRowsInCache = 32;
#else
constexpr std::size_t kRowsInPlace = 4, kRowsInCache = 0;
#endif
constexpr FloatPanelKernels kFloatPanels = {kFloatPanelColumns, kRowsInPlace,   kRowsInCache,
                                            interleave,         add_float_tile, add_float_product_in_place,
                                            add_transposed};
