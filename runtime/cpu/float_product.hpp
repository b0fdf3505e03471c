// SPDX-License-Identifier: MIT
/// Products of float32 matrices with many rows, on our own threads: OpenBLAS's wait for the next product by yielding, and meanwhile take
/// the cores from what computes everything else.
#pragma once

#include <cstddef>

namespace vkformer::cpu {

/// Rows of x that make a tile.
inline constexpr std::size_t kFloatTileRows = 8;

/// Tiles of x times panels of w: their sums stay in registers.
struct FloatPanelKernels {
    std::size_t panel_columns;  // rows of w that make a panel
    /// `count` rows, `stride` apart, `depth` elements of each, side by side: out[i · width + r] = rows[r · stride + i], zeros for r from
    /// `count` to `width`, a multiple of 8.
    void (*interleave)(const float* rows, std::size_t stride, std::size_t count, std::size_t width, std::size_t depth,
                       float* out);
    /// y[r · stride + c] += Σ_i tile[i][r] · panel[i][c] for r below `rows` and c below `columns`. tile: [depth, kFloatTileRows], panel:
    /// [depth, panel_columns].
    void (*add_tile)(const float* tile, std::size_t rows, const float* panel, std::size_t columns, std::size_t depth,
                     float* y, std::size_t stride);
};

/// By what the processor can do: AVX-512, AVX2, or neither.
const FloatPanelKernels& float_panel_kernels() noexcept;
/// For processors without wide vectors.
const FloatPanelKernels& plain_float_panel_kernels() noexcept;

/// y[r, o] += Σ_i x[r, i] · w[o, i]     x: [rows, in], w: [out, in], y: [rows, out]. Throws std::bad_alloc.
void add_float_product(const float* x, const float* w, std::size_t rows, std::size_t in, std::size_t out, float* y,
                       const FloatPanelKernels& kernels = float_panel_kernels());

}  // namespace vkformer::cpu
