// SPDX-License-Identifier: MIT
// FloatPanelKernels; see vectors.inl.
#include "cpu/vectors.inl"

// The sums of four or eight rows by three vectors of columns, a row of the panel and a number of x fill the registers.
#if defined(VKFORMER_HAS_AVX512)
using PanelFloats = float __attribute__((vector_size(64)));
constexpr std::size_t kPanelLanes = 16, kPanelVectors = 3, kRowsAtOnce = 8;
#elif defined(VKFORMER_HAS_NEON)
using PanelFloats = FourFloats;
constexpr std::size_t kPanelLanes = 4, kPanelVectors = 3, kRowsAtOnce = 8;
#else
using PanelFloats = Floats;
constexpr std::size_t kPanelLanes = 8, kPanelVectors = 3, kRowsAtOnce = 4;
#endif
constexpr std::size_t kFloatPanelColumns = kPanelVectors * kPanelLanes;

// Rows that are interleaved at once.
#ifdef VKFORMER_HAS_NEON
using Interleaved = FourInts;
#else
using Interleaved = Ints;
#endif
constexpr std::size_t kInterleaved = sizeof(Interleaved) / sizeof(float);

inline void interleave(const float* rows, std::size_t stride, std::size_t count, std::size_t width, std::size_t depth,
                       float* out) {
    for (std::size_t first = 0; first < width; first += kInterleaved) {
        std::size_t i = 0;
        for (; i + kInterleaved <= depth; i += kInterleaved) {
            Interleaved some[kInterleaved];
            for (std::size_t r = 0; r < kInterleaved; ++r)
                some[r] = first + r < count ? load<Interleaved>(rows + (first + r) * stride + i) : Interleaved{};
            transpose(some);
            for (std::size_t k = 0; k < kInterleaved; ++k)
                __builtin_memcpy(out + (i + k) * width + first, &some[k], sizeof some[k]);
        }
        for (; i < depth; ++i)
            for (std::size_t r = first; r < first + kInterleaved; ++r)
                out[i * width + r] = r < count ? rows[r * stride + i] : 0;
    }
}

#ifdef VKFORMER_HAS_NEON
/// sums += x[lane] · w
template <int lane>
inline void add_row(FourFloats x, const FourFloats* w, FourFloats* sums) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kPanelVectors; ++v) sums[v] = (FourFloats)vfmaq_laneq_f32(sums[v], w[v], x, lane);
}
#endif

/// kRowsAtOnce rows from the first of `tile` on, of which `rows` are stored.
inline void add_rows(const float* tile, std::size_t rows, const float* panel, std::size_t columns, std::size_t depth,
                     float* y, std::size_t stride) {
    PanelFloats sums[kRowsAtOnce][kPanelVectors] = {};
    for (std::size_t i = 0; i < depth; ++i, tile += kFloatTileRows, panel += kFloatPanelColumns) {
        PanelFloats w[kPanelVectors];
#pragma GCC unroll 4
        for (std::size_t v = 0; v < kPanelVectors; ++v) w[v] = load<PanelFloats>(panel + v * kPanelLanes);
#ifdef VKFORMER_HAS_NEON
        const auto x = load<FourFloats>(tile), more = load<FourFloats>(tile + 4);
        add_row<0>(x, w, sums[0]), add_row<1>(x, w, sums[1]), add_row<2>(x, w, sums[2]), add_row<3>(x, w, sums[3]);
        add_row<0>(more, w, sums[4]), add_row<1>(more, w, sums[5]), add_row<2>(more, w, sums[6]),
            add_row<3>(more, w, sums[7]);
#else
#pragma GCC unroll 8
        for (std::size_t r = 0; r < kRowsAtOnce; ++r)
#pragma GCC unroll 4
            for (std::size_t v = 0; v < kPanelVectors; ++v) sums[r][v] += tile[r] * w[v];
#endif
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
