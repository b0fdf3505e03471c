// SPDX-License-Identifier: MIT
// FloatPanelKernels; see vectors.inl.
#include "cpu/vectors.inl"

// The sums of four or eight rows by three vectors of columns, a row of the panel and a number of x fill the registers.
#if defined(VKFORMER_HAS_AVX512)
using PanelFloats = float __attribute__((vector_size(64)));
constexpr std::size_t kPanelLanes = 16, kPanelVectors = 3, kRowsAtOnce = 8;
#else
using PanelFloats = Floats;
constexpr std::size_t kPanelLanes = 8, kPanelVectors = 3, kRowsAtOnce = 4;
#endif
constexpr std::size_t kFloatPanelColumns = kPanelVectors * kPanelLanes;

inline void interleave(const float* rows, std::size_t stride, std::size_t count, std::size_t width, std::size_t depth,
                       float* out) {
    for (std::size_t first = 0; first < width; first += kLanes) {
        std::size_t i = 0;
        for (; i + kLanes <= depth; i += kLanes) {
            Ints eight[kLanes];
            for (std::size_t r = 0; r < kLanes; ++r)
                eight[r] = first + r < count ? load<Ints>(rows + (first + r) * stride + i) : Ints{};
            transpose(eight);
            for (std::size_t k = 0; k < kLanes; ++k)
                __builtin_memcpy(out + (i + k) * width + first, &eight[k], sizeof(Ints));
        }
        for (; i < depth; ++i)
            for (std::size_t r = first; r < first + kLanes; ++r)
                out[i * width + r] = r < count ? rows[r * stride + i] : 0;
    }
}

/// kRowsAtOnce rows from the first of `tile` on, of which `rows` are stored.
inline void add_rows(const float* tile, std::size_t rows, const float* panel, std::size_t columns, std::size_t depth,
                     float* y, std::size_t stride) {
    PanelFloats sums[kRowsAtOnce][kPanelVectors] = {};
    for (std::size_t i = 0; i < depth; ++i, tile += kFloatTileRows, panel += kFloatPanelColumns) {
        PanelFloats w[kPanelVectors];
#pragma GCC unroll 4
        for (std::size_t v = 0; v < kPanelVectors; ++v) w[v] = load<PanelFloats>(panel + v * kPanelLanes);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < kRowsAtOnce; ++r)
#pragma GCC unroll 4
            for (std::size_t v = 0; v < kPanelVectors; ++v) sums[r][v] += tile[r] * w[v];
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRowsAtOnce; ++r) {
        if (r >= rows) break;
        float* const row = y + r * stride;
        if (columns == kFloatPanelColumns) {
#pragma GCC unroll 4
            for (std::size_t v = 0; v < kPanelVectors; ++v) {
                const PanelFloats sum = load<PanelFloats>(row + v * kPanelLanes) + sums[r][v];
                __builtin_memcpy(row + v * kPanelLanes, &sum, sizeof sum);
            }
        } else {
            float numbers[kFloatPanelColumns];
            __builtin_memcpy(numbers, sums[r], sizeof numbers);
            for (std::size_t c = 0; c < columns; ++c) row[c] += numbers[c];
        }
    }
}

inline void add_float_tile(const float* tile, std::size_t rows, const float* panel, std::size_t columns,
                           std::size_t depth, float* y, std::size_t stride) {
    for (std::size_t r = 0; r < rows; r += kRowsAtOnce)
        add_rows(tile + r, rows - r, panel, columns, depth, y + r * stride, stride);
}

constexpr FloatPanelKernels kFloatPanels = {kFloatPanelColumns, interleave, add_float_tile};
