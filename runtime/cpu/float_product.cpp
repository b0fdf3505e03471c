// SPDX-License-Identifier: MIT
#include "cpu/float_product.hpp"

#include <algorithm>

#include "cpu/parallel.hpp"

namespace vkformer::cpu {
namespace {

/// kBlockRows · kDepth floats of x (384 KiB) stay in a second cache while all of w passes; of w, kDepth rows of a panel (18 or 36 KiB) and
/// a tile (6 KiB) in the first.
constexpr std::size_t kBlockRows = 512, kDepth = 192;

/// Some rows of x and of y, and some elements of the rows of x and w.
struct Block {
    const float* x;
    std::size_t rows, first, depth;  // elements first … first + depth − 1
    float* y;
};

/// What a thread has: rows of w that had to be made, and a panel of them.
struct Buffers {
    float* tiles;    // of all threads
    float* threads;  // two buffers of each
    std::size_t size;
    float* scratch(std::size_t thread) const { return threads + 2 * thread * size; }
    float* panel(std::size_t thread) const { return threads + (2 * thread + 1) * size; }
};

void add_block(const Block& b, const FloatRowsSource& w, const FloatProductDims& dims, const FloatPanelKernels& kernels,
               const Buffers& buffers) {
    const std::size_t tile_count = (b.rows + kFloatTileRows - 1) / kFloatTileRows, tile_size = kFloatTileRows * b.depth;
    parallel_for(
        tile_count, slice_of(tile_count, 8 * tile_size), [&](std::size_t first, std::size_t last, std::size_t) {
            for (std::size_t t = first; t < last; ++t) {
                const std::size_t row = t * kFloatTileRows;
                kernels.interleave(b.x + row * dims.in + b.first, dims.in, std::min(kFloatTileRows, b.rows - row),
                                   kFloatTileRows, b.depth, buffers.tiles + t * tile_size);
            }
        });

    const std::size_t columns = kernels.panel_columns, panel_count = (dims.out + columns - 1) / columns;
    // Where there are few panels, several threads make the same one, each for some of the tiles.
    const std::size_t wanted = (2 * parallel_threads() + panel_count - 1) / panel_count;
    const std::size_t shares = std::clamp<std::size_t>(b.rows / kLeastPanelUses, 1, wanted);
    parallel_for(panel_count * shares, 1, [&](std::size_t first, std::size_t last, std::size_t thread) {
        float* const panel = buffers.panel(thread);
        for (; first < last; ++first) {
            const std::size_t column = first / shares * columns, share = first % shares;
            const std::size_t some = std::min(columns, dims.out - column);
            const FloatRows rows = w.rows(w.context, column, some, b.first, b.depth, buffers.scratch(thread));
            kernels.interleave(rows.data, rows.stride, some, columns, b.depth, panel);
            for (std::size_t t = share * tile_count / shares; t < (share + 1) * tile_count / shares; ++t) {
                const std::size_t row = t * kFloatTileRows;
                kernels.add_tile(buffers.tiles + t * tile_size, std::min(kFloatTileRows, b.rows - row), panel, some,
                                 b.depth, b.y + row * dims.y_stride + column, dims.y_stride);
            }
        }
    });
}

}  // namespace

void add_float_product(const float* x, const FloatRowsSource& w, const FloatProductDims& dims, float* y,
                       const FloatPanelKernels& kernels) {
    const std::size_t parts = (dims.in + kDepth - 1) / kDepth, each = (dims.in + parts - 1) / parts;
    const std::size_t depth = (each + w.step - 1) / w.step * w.step, size = kernels.panel_columns * depth;
    const std::size_t tile_rows =
        (std::min(dims.rows, kBlockRows) + kFloatTileRows - 1) / kFloatTileRows * kFloatTileRows;
    const AlignedBytes tiles = aligned_bytes(tile_rows * depth * sizeof(float));
    const AlignedBytes threads = aligned_bytes(2 * parallel_threads() * size * sizeof(float));
    const Buffers buffers{reinterpret_cast<float*>(tiles.get()), reinterpret_cast<float*>(threads.get()), size};
    for (std::size_t row = 0; row < dims.rows; row += kBlockRows)
        for (std::size_t i = 0; i < dims.in; i += depth)
            add_block({.x = x + row * dims.in,
                       .rows = std::min(kBlockRows, dims.rows - row),
                       .first = i,
                       .depth = std::min(depth, dims.in - i),
                       .y = y + row * dims.y_stride},
                      w, dims, kernels, buffers);
}

void add_float_product(const float* x, const float* w, std::size_t rows, std::size_t in, std::size_t out, float* y,
                       const FloatPanelKernels& kernels) {
    const FloatRows all{w, in};
    const auto in_place = [](const void* context, std::size_t first, std::size_t, std::size_t i, std::size_t, float*) {
        const FloatRows& from = *static_cast<const FloatRows*>(context);
        return FloatRows{from.data + first * from.stride + i, from.stride};
    };
    add_float_product(x, {.context = &all, .rows = in_place}, {.rows = rows, .in = in, .out = out, .y_stride = out}, y,
                      kernels);
}

SmallFloatProduct::SmallFloatProduct(std::size_t rows, std::size_t depth, const float* x, std::size_t x_stride,
                                     float scale, const FloatPanelKernels& kernels)
    : kernels_(kernels), rows_(rows), depth_(depth), x_(x), x_stride_(x_stride), scale_(scale) {
    if (!has_tiles()) return;
    const std::size_t tile_size = kFloatTileRows * depth;
    const std::size_t size = (rows + kFloatTileRows - 1) / kFloatTileRows * tile_size;
    const bool is_scaled = scale != 1;
    tiles_ = aligned_bytes(size * sizeof(float));
    panel_ = aligned_bytes(std::max(kernels.panel_columns, kFloatTileRows) * depth * sizeof(float));
    auto *const tiles = reinterpret_cast<float*>(tiles_.get()), *const tile = reinterpret_cast<float*>(panel_.get());
    if (is_scaled) std::fill_n(tiles, size, 0.0f);
    for (std::size_t row = 0; row < rows; row += kFloatTileRows) {
        float* const to = tiles + row * depth;
        kernels.interleave(x + row * x_stride, x_stride, std::min(kFloatTileRows, rows - row), kFloatTileRows, depth,
                           is_scaled ? tile : to);
        if (is_scaled) float_kernels().add_scaled_rows(&scale, 1, tile, 0, tile_size, to);
    }
}

void SmallFloatProduct::add(std::size_t columns, const float* w, std::size_t w_stride, float* y,
                            std::size_t y_stride) const {
    constexpr std::size_t kLeast = 16;  // columns that are worth a panel
    if (!has_tiles() || columns < kLeast) {
        kernels_.add_transposed({.rows = rows_,
                                 .columns = columns,
                                 .depth = depth_,
                                 .x = x_,
                                 .x_stride = x_stride_,
                                 .w = w,
                                 .w_stride = w_stride,
                                 .y = y,
                                 .y_stride = y_stride,
                                 .scale = scale_});
        return;
    }
    const auto* const tiles = reinterpret_cast<const float*>(tiles_.get());
    auto* const panel = reinterpret_cast<float*>(panel_.get());
    const std::size_t width = kernels_.panel_columns;
    for (std::size_t column = 0; column < columns; column += width) {
        const std::size_t some = std::min(width, columns - column);
        kernels_.interleave(w + column * w_stride, w_stride, some, width, depth_, panel);
        for (std::size_t row = 0; row < rows_; row += kFloatTileRows)
            kernels_.add_tile(tiles + row * depth_, std::min(kFloatTileRows, rows_ - row), panel, some, depth_,
                              y + row * y_stride + column, y_stride);
    }
}

void add_small_float_product(const ProductOperands& o, const FloatPanelKernels& kernels) {
    kernels.add_product(o);
    add_rest_of_product(o);
}

void add_rest_of_product(const ProductOperands& o) {
    const std::size_t rows = o.rows / kLeastRows * kLeastRows, columns = o.columns / kLeastColumns * kLeastColumns;
    for (std::size_t row = 0; row < o.rows; ++row) {
        const std::size_t first = row < rows ? columns : 0;
        if (first < o.columns)
            float_kernels().add_scaled_rows(o.x + row * o.x_stride, o.depth, o.w + first, o.w_stride, o.columns - first,
                                            o.y + row * o.y_stride + first);
    }
}

}  // namespace vkformer::cpu
