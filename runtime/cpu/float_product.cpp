// SPDX-License-Identifier: MIT
#include "cpu/float_product.hpp"

#include <algorithm>

#include "cpu/aligned_bytes.hpp"
#include "cpu/parallel.hpp"

namespace vkformer::cpu {
namespace {

/// Of x, kBlockRows · kDepth floats (384 KiB) stay in a second cache while all of w passes; of w, kDepth rows of a panel (18 or 36 KiB) and
/// a tile (6 KiB) in the first.
constexpr std::size_t kBlockRows = 512, kDepth = 192;
/// Rows of x that are worth a panel of their own, where there are fewer panels than threads.
constexpr std::size_t kLeastPanelUses = 64;

/// Some rows of x and of y, and some elements of the rows of x and w.
struct Block {
    const float* x;
    const float* w;
    std::size_t rows, depth, in, out;
    float* y;
};

void add_block(const Block& b, const FloatPanelKernels& kernels, float* tiles, float* panels) {
    const std::size_t tile_count = (b.rows + kFloatTileRows - 1) / kFloatTileRows, tile_size = kFloatTileRows * b.depth;
    parallel_for(tile_count, slice_of(tile_count, 8 * tile_size),
                 [&](std::size_t first, std::size_t last, std::size_t) {
                     for (std::size_t t = first; t < last; ++t) {
                         const std::size_t row = t * kFloatTileRows;
                         kernels.interleave(b.x + row * b.in, b.in, std::min(kFloatTileRows, b.rows - row),
                                            kFloatTileRows, b.depth, tiles + t * tile_size);
                     }
                 });

    const std::size_t columns = kernels.panel_columns, panel_count = (b.out + columns - 1) / columns;
    // Where there are few panels, several threads make the same one, each for some of the tiles.
    const std::size_t wanted = (2 * parallel_threads() + panel_count - 1) / panel_count;
    const std::size_t shares = std::clamp<std::size_t>(b.rows / kLeastPanelUses, 1, wanted);
    parallel_for(panel_count * shares, 1, [&](std::size_t first, std::size_t last, std::size_t thread) {
        float* const panel = panels + thread * columns * b.depth;
        for (; first < last; ++first) {
            const std::size_t column = first / shares * columns, share = first % shares;
            const std::size_t some = std::min(columns, b.out - column);
            kernels.interleave(b.w + column * b.in, b.in, some, columns, b.depth, panel);
            for (std::size_t t = share * tile_count / shares; t < (share + 1) * tile_count / shares; ++t) {
                const std::size_t row = t * kFloatTileRows;
                kernels.add_tile(tiles + t * tile_size, std::min(kFloatTileRows, b.rows - row), panel, some, b.depth,
                                 b.y + row * b.out + column, b.out);
            }
        }
    });
}

}  // namespace

void add_float_product(const float* x, const float* w, std::size_t rows, std::size_t in, std::size_t out, float* y,
                       const FloatPanelKernels& kernels) {
    const std::size_t parts = (in + kDepth - 1) / kDepth, depth = (in + parts - 1) / parts;
    const std::size_t tile_rows = (std::min(rows, kBlockRows) + kFloatTileRows - 1) / kFloatTileRows * kFloatTileRows;
    const AlignedBytes tiles = aligned_bytes(tile_rows * depth * sizeof(float));
    const AlignedBytes panels = aligned_bytes(parallel_threads() * kernels.panel_columns * depth * sizeof(float));
    for (std::size_t row = 0; row < rows; row += kBlockRows)
        for (std::size_t i = 0; i < in; i += depth)
            add_block({.x = x + row * in + i,
                       .w = w + i,
                       .rows = std::min(kBlockRows, rows - row),
                       .depth = std::min(depth, in - i),
                       .in = in,
                       .out = out,
                       .y = y + row * out},
                      kernels, reinterpret_cast<float*>(tiles.get()), reinterpret_cast<float*>(panels.get()));
}

}  // namespace vkformer::cpu
