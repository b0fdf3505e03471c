// SPDX-License-Identifier: MIT
/// Products of rows of weights in a quantised format with activations that are rounded to 8 bits: x ≈ d · q, −127 ≤ q ≤ 127, where
/// each 32 of a row ("group") share d = max |x| / 127. The quants are multiplied and added as integers, exactly, 32 or (q3_k, q6_k) 16 at a
/// time; the rest is float32. A step of 1 / 127 of the largest errs by 1 / √12 of itself, so normal values, whose largest of 32 is 2.1
/// standard deviations, by 2.1 / 127 / √12 = 0.005 of their norm: validation/bounds.cpp knows it as "int8".
/// A group with a value that is not finite gets a d that is not, and every product with it NaN or an infinity. A group whose largest
/// is below 2^−100 counts as zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/dtype.hpp"

namespace vkformer::cpu {

/// Elements that share a d.
inline constexpr std::size_t kInt8Group = 32;
/// The most rows that a QuantizedRows has.
inline constexpr std::size_t kMostDotRows = 8;

/// What `add_dots` reads: rows of x one after the other.
struct QuantizedRows {
    std::size_t rows, groups;   // 1 … kMostDotRows; groups of a row
    const std::int8_t* quants;  // [rows, groups, 32]
    const float* scales;        // [rows, groups]: d
    const float* totals;        // [rows, groups]: d · Σ q
};

/// Weights that will be read next: on x86 `add_tile` asks for group_bytes of them with each group. None: zeros.
struct Ahead {
    const std::byte* from;
    std::size_t group_bytes;
};

/// For one format; the same functions compiled for several instruction sets.
struct Int8Kernels {
    /// Weight rows of a panel, and rows of x of a tile: the sums of their products stay in registers. Rows that are left over make a
    /// small tile, where they fit into one.
    std::size_t panel_columns, tile_rows, small_tile_rows;
    /// Up to so many rows of x, dot products take less time than a tile, for which the weight rows are laid out anew.
    std::size_t dot_rows;
    /// Up to so many rows that whole tiles leave over take less time as dot products than in a tile of their own.
    std::size_t left_over_rows;
    /// What a group takes: with all rows of a panel, with each row of a tile.
    std::size_t panel_bytes, tile_row_bytes;

    /// One row: groups · 32 quants, `groups` scales and totals.
    void (*quantize)(const float* x, std::size_t groups, std::int8_t* quants, float* scales, float* totals);
    /// y[r · stride + c] += Σ_i x[r, i] · w[c, i], of the bytes of `columns` weight rows that lie row_bytes apart. A sum is the same
    /// whichever rows are with it.
    void (*add_dots)(const std::byte* weight, std::size_t row_bytes, std::size_t columns, const QuantizedRows& x,
                     float* y, std::size_t stride);

    /// `rows` rows of x, `stride` apart, as `add_tile` reads a tile of tile_rows or small_tile_rows (`size`); those that lack are zeros.
    /// tile: size · groups · tile_row_bytes.
    void (*make_tile)(const float* x, std::size_t stride, std::size_t rows, std::size_t size, std::size_t groups,
                      std::byte* tile);
    /// `columns` weight rows, up to panel_columns, as `add_tile` reads them: groups · panel_bytes, aligned to 64. `weight` is where
    /// whole blocks begin, and `groups` whole blocks.
    void (*make_panel)(const std::byte* weight, std::size_t row_bytes, std::size_t columns, std::size_t groups,
                       std::byte* panel);
    /// y[r · stride + c] += Σ_i x[r, i] · w[c, i] for r below `rows` and c below `columns`.
    void (*add_tile)(const std::byte* tile, std::size_t size, std::size_t rows, const std::byte* panel,
                     std::size_t columns, std::size_t groups, const Ahead& ahead, float* y, std::size_t stride);
};

/// By what the processor can do: AVX-512 VNNI, AVX-VNNI, AVX2. Null: the processor or the format has none. Those of the block
/// formats but q2_k, whose minimums belong to half a group.
const Int8Kernels* int8_kernels(DType dtype) noexcept;
/// All that the processor can run: for tests.
std::vector<const Int8Kernels*> every_int8_kernels(DType dtype);

}  // namespace vkformer::cpu
