// SPDX-License-Identifier: MIT
/// Products of float32 matrices with many rows, on our own threads: OpenBLAS's wait for the next product by yielding, and meanwhile take
/// the cores from what computes everything else.
#pragma once

#include <cstddef>

#include "cpu/aligned_bytes.hpp"
#include "cpu/float_kernels.hpp"

namespace vkformer::cpu {

/// Rows of x that make a tile.
inline constexpr std::size_t kFloatTileRows = 8;
/// Rows of x that are worth a panel of w, in a product on one thread.
inline constexpr std::size_t kLeastTiledRows = 2 * kFloatTileRows;
/// Rows of x, and columns of w, that a product with w in place has at least at once.
inline constexpr std::size_t kLeastRows = 4, kLeastColumns = 4;
/// Rows of x that are worth a panel of their own, where there are fewer panels than threads.
inline constexpr std::size_t kLeastPanelUses = 64;

/// Tiles of x times panels of w: their sums stay in registers.
struct FloatPanelKernels {
    std::size_t panel_columns;  // rows of w that make a panel
    /// Up to so many rows of x, w is multiplied where it lies: to lay it out as panels takes longer than it gives. As it was measured, or 4.
    std::size_t rows_in_place;
    /// Up to so many rows of x, rows of w that have to be made are rather multiplied where they were put, in a cache: to lay them out as a
    /// panel takes longer than it gives. As it was measured; 0 where it was not.
    std::size_t rows_in_cache;
    /// `count` rows, `stride` apart, `depth` elements of each, side by side: out[i · width + r] = rows[r · stride + i], with width
    /// panel_columns or kFloatTileRows. For r from `count` on zeros, up to the end of a vector or tile.
    void (*interleave)(const float* rows, std::size_t stride, std::size_t count, std::size_t width, std::size_t depth,
                       float* out);
    /// y[r · stride + c] += Σ_i tile[i][r] · panel[i][c] for r below `rows` and c below `columns`. tile: [depth, kFloatTileRows], panel:
    /// [depth, panel_columns].
    void (*add_tile)(const float* tile, std::size_t rows, const float* panel, std::size_t columns, std::size_t depth,
                     float* y, std::size_t stride);
    /// y[r, c] += Σ_i x[r, i] · w[i, c] for whole kLeastRows and kLeastColumns, with w: [depth, columns] in a cache, and no
    /// scale. What is left of rows and columns is not touched.
    void (*add_product)(const ProductOperands& operands);
    /// y[r, c] += scale · Σ_i x[r, i] · w[c, i], with w where it lies and without blocks: it is to be in a cache, or x to have few rows.
    void (*add_transposed)(const ProductOperands& operands);
};

/// By what the processor can do: AVX-512, AVX2, NEON, or none of them.
const FloatPanelKernels& float_panel_kernels() noexcept;
/// For processors without wide vectors.
const FloatPanelKernels& plain_float_panel_kernels() noexcept;

/// Rows of floats, `stride` apart.
struct FloatRows {
    const float* data;
    std::size_t stride;
};

/// What w of a product is, which may have to be made.
struct FloatRowsSource {
    const void* context;
    /// Elements i … i + depth − 1 of rows first … first + count − 1: in place, or written to `scratch` (count · depth floats). Is called
    /// by several threads.
    FloatRows (*rows)(const void* context, std::size_t first, std::size_t count, std::size_t i, std::size_t depth,
                      float* scratch);
    std::size_t step = 1;  ///< i is a multiple of it
};

struct FloatProductDims {
    std::size_t rows, in, out, y_stride;
};

/// y[r · y_stride + o] += Σ_i x[r, i] · w[o, i]     x: [rows, in], w: [out, in]. Throws std::bad_alloc.
void add_float_product(const float* x, const FloatRowsSource& w, const FloatProductDims& dims, float* y,
                       const FloatPanelKernels& kernels = float_panel_kernels());
/// The same with w in place, and y: [rows, out].
void add_float_product(const float* x, const float* w, std::size_t rows, std::size_t in, std::size_t out, float* y,
                       const FloatPanelKernels& kernels = float_panel_kernels());

/// x of products on the calling thread: some rows, all of them times a scale, which with many rows is multiplied before it is added up.
class SmallFloatProduct {
public:
    /// x: [rows, depth] is borrowed. Throws std::bad_alloc.
    SmallFloatProduct(std::size_t rows, std::size_t depth, const float* x, std::size_t x_stride, float scale,
                      const FloatPanelKernels& kernels = float_panel_kernels());

    /// y[r, c] += scale · Σ_i x[r, i] · w[c, i]    w: [columns, depth], in a cache.
    void add(std::size_t columns, const float* w, std::size_t w_stride, float* y, std::size_t y_stride) const;

private:
    bool has_tiles() const noexcept { return rows_ >= kLeastTiledRows; }

    const FloatPanelKernels& kernels_;
    std::size_t rows_, depth_;
    const float* x_;
    std::size_t x_stride_;
    float scale_;
    AlignedBytes tiles_, panel_;
};

/// y[r, c] += Σ_i x[r, i] · w[i, c] on the calling thread, w: [depth, columns] in a cache, without scale.
void add_small_float_product(const ProductOperands& operands, const FloatPanelKernels& kernels = float_panel_kernels());
/// What FloatPanelKernels::add_product leaves of it.
void add_rest_of_product(const ProductOperands& operands);

}  // namespace vkformer::cpu
