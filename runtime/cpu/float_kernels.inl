// SPDX-License-Identifier: MIT
// FloatKernels. A product goes by tiles, some rows of x and some of w, whose sums stay in registers. See vectors.inl.
#include "cpu/vectors.inl"

// Twelve sums, three rows of w and a vector of x are sixteen registers of AVX2, and half of NEON's.
#if defined(VKFORMER_HAS_AVX2) || defined(__aarch64__)
constexpr std::size_t kTileRows = 4, kTileColumns = 3;
#else
constexpr std::size_t kTileRows = 2, kTileColumns = 2;
#endif

template <std::size_t rows, std::size_t columns>
inline void add_tile(const ProductOperands& o, std::size_t row, std::size_t column) {
    const float* const x = o.x + row * o.x_stride;
    const float* const w = o.w + column * o.w_stride;
    Floats sums[rows][columns] = {};
    std::size_t i = 0;
    for (; i + kLanes <= o.depth; i += kLanes) {
        Floats ws[columns];
#pragma GCC unroll 4
        for (std::size_t c = 0; c < columns; ++c) ws[c] = load<Floats>(w + c * o.w_stride + i);
#pragma GCC unroll 4
        for (std::size_t r = 0; r < rows; ++r) {
            const auto xs = load<Floats>(x + r * o.x_stride + i);
#pragma GCC unroll 4
            for (std::size_t c = 0; c < columns; ++c) sums[r][c] += xs * ws[c];
        }
    }
#pragma GCC unroll 4
    for (std::size_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
        for (std::size_t c = 0; c < columns; ++c) {
            float sum = sum_of(sums[r][c]);
            for (std::size_t k = i; k < o.depth; ++k) sum += x[r * o.x_stride + k] * w[c * o.w_stride + k];
            o.y[(row + r) * o.y_stride + column + c] += o.scale * sum;
        }
}

template <std::size_t rows>
inline void add_row_of_tiles(const ProductOperands& o, std::size_t row) {
    std::size_t column = 0;
    for (; column + kTileColumns <= o.columns; column += kTileColumns) add_tile<rows, kTileColumns>(o, row, column);
    for (; column < o.columns; ++column) add_tile<rows, 1>(o, row, column);
}

inline void add_products(const ProductOperands& o) {
    std::size_t row = 0;
    for (; row + kTileRows <= o.rows; row += kTileRows) add_row_of_tiles<kTileRows>(o, row);
    for (; row + 2 <= o.rows; row += 2) add_row_of_tiles<2>(o, row);
    for (; row < o.rows; ++row) add_row_of_tiles<1>(o, row);
}

/// y[0 … vectors · 8 − 1] += Σ_j scales[j] · w[j]
template <std::size_t vectors>
inline void add_scaled_columns(const float* scales, std::size_t count, const float* w, std::size_t w_stride, float* y) {
    Floats sums[vectors];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < vectors; ++v) sums[v] = load<Floats>(y + v * kLanes);
    for (std::size_t j = 0; j < count; ++j, w += w_stride)
#pragma GCC unroll 8
        for (std::size_t v = 0; v < vectors; ++v) sums[v] += scales[j] * load<Floats>(w + v * kLanes);
    __builtin_memcpy(y, sums, sizeof sums);
}

inline void add_scaled_rows(const float* scales, std::size_t count, const float* w, std::size_t w_stride,
                            std::size_t width, float* y) {
    std::size_t i = 0;
    for (; i + 8 * kLanes <= width; i += 8 * kLanes) add_scaled_columns<8>(scales, count, w + i, w_stride, y + i);
    for (; i + kLanes <= width; i += kLanes) add_scaled_columns<1>(scales, count, w + i, w_stride, y + i);
    for (; i < width; ++i)
        for (std::size_t j = 0; j < count; ++j) y[i] += scales[j] * w[j * w_stride + i];
}

constexpr FloatKernels kFloats = {add_products, add_scaled_rows};
