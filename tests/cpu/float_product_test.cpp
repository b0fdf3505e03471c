// SPDX-License-Identifier: MIT
#include "cpu/float_product.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/kernels_avx2.hpp"
#include "cpu/random_numbers.hpp"
#include "support/catch.h"

namespace vkformer::tests {
namespace {

/// Those that this processor takes, those of processors with less, and those of every one.
std::vector<const cpu::FloatPanelKernels*> kinds_of_panels() {
    std::vector<const cpu::FloatPanelKernels*> kinds = {&cpu::float_panel_kernels(), &cpu::plain_float_panel_kernels()};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        kinds.push_back(&cpu::float_panel_kernels_avx2());
#endif
    return kinds;
}

}  // namespace

// Tiles of 8 rows, panels of 12, 24 or 48 columns, depths of 192 and blocks of 512 rows.
TEST_CASE("products of float32 with many rows agree with double precision", "[cpu][float_product]") {
    const auto [rows, in, out] = GENERATE(table<std::size_t, std::size_t, std::size_t>(
        {{1, 1, 1}, {5, 7, 3}, {8, 8, 48}, {9, 191, 49}, {12, 193, 24}, {17, 385, 47}, {129, 33, 25}, {513, 200, 50}}));
    CAPTURE(rows, in, out);
    const std::vector<float> x = random_numbers(rows * in, 1), w = random_numbers(out * in, 2);
    const std::vector<float> before = random_numbers(rows * out, 3);
    for (const cpu::FloatPanelKernels* kernels : kinds_of_panels()) {
        std::vector<float> y = before;
        cpu::add_float_product(x.data(), w.data(), rows, in, out, y.data(), *kernels);
        std::size_t wrong = 0;
        for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t o = 0; o < out; ++o) {
                double expected = static_cast<double>(before[r * out + o]), terms = std::abs(expected);
                for (std::size_t i = 0; i < in; ++i) {
                    const double term = static_cast<double>(x[r * in + i]) * static_cast<double>(w[o * in + i]);
                    expected += term;
                    terms += std::abs(term);
                }
                const double bound = (static_cast<double>(in) + 8) * 0x1p-24 * terms;
                wrong += !(std::abs(static_cast<double>(y[r * out + o]) - expected) <= bound);
            }
        CHECK(wrong == 0);
    }
}

TEST_CASE("products of float32 with w where it lies agree with double precision", "[cpu][float_kernels]") {
    const auto [rows, columns, depth] = GENERATE(table<std::size_t, std::size_t, std::size_t>({{1, 1, 1},
                                                                                               {1, 7, 64},
                                                                                               {2, 3, 8},
                                                                                               {3, 4, 9},
                                                                                               {4, 3, 65},
                                                                                               {7, 13, 31},
                                                                                               {13, 8, 47},
                                                                                               {19, 7, 16},
                                                                                               {32, 200, 64}}));
    CAPTURE(rows, columns, depth);
    const std::size_t x_stride = depth + 3, w_stride = depth + 5, y_stride = columns + 2;
    const std::vector<float> x = random_numbers(rows * x_stride, 1), w = random_numbers(columns * w_stride, 2);
    const std::vector<float> before = random_numbers(rows * y_stride, 3);
    for (const cpu::FloatPanelKernels* kernels : kinds_of_panels()) {
        std::vector<float> y = before;
        kernels->add_transposed({.rows = rows,
                                 .columns = columns,
                                 .depth = depth,
                                 .x = x.data(),
                                 .x_stride = x_stride,
                                 .w = w.data(),
                                 .w_stride = w_stride,
                                 .y = y.data(),
                                 .y_stride = y_stride,
                                 .scale = 0.5f});
        const double bound = (static_cast<double>(depth) + 8) * 0x1p-24;
        std::size_t wrong = 0;
        for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t c = 0; c < y_stride; ++c) {
                double expected = static_cast<double>(before[r * y_stride + c]), terms = std::abs(expected);
                for (std::size_t i = 0; i < depth && c < columns; ++i) {
                    const double term =
                        0.5 * static_cast<double>(x[r * x_stride + i]) * static_cast<double>(w[c * w_stride + i]);
                    expected += term;
                    terms += std::abs(term);
                }
                wrong += !(std::abs(static_cast<double>(y[r * y_stride + c]) - expected) <= bound * terms);
            }
        CHECK(wrong == 0);
    }
}

// Eight rows go at once, four, or one, and columns of all kinds of vectors, in rows with something behind them.
TEST_CASE("small products of float32 agree with double precision and touch nothing else", "[cpu][float_product]") {
    const std::size_t rows = GENERATE(1, 6, 8, 15, 17, 32);
    const auto [depth, columns] =
        GENERATE(table<std::size_t, std::size_t>({{1, 1}, {32, 48}, {64, 24}, {7, 23}, {80, 95}, {31, 33}, {128, 70}}));
    const float scale = GENERATE(1.0f, 0.125f);
    CAPTURE(rows, depth, columns, scale);
    const std::size_t x_stride = depth + 3, y_stride = columns + 5;
    const std::vector<float> x = random_numbers(rows * x_stride, 1), w = random_numbers(columns * (depth + 2), 2);
    const std::vector<float> before = random_numbers(rows * y_stride, 3);
    // w[c, i] lies at c · (depth + 2) + i for the one and at i · columns + c for the other.
    const auto count_wrong = [&](const std::vector<float>& y, std::size_t w_column, std::size_t w_row, float factor) {
        std::size_t wrong = 0;
        for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t c = 0; c < y_stride; ++c) {
                double expected = static_cast<double>(before[r * y_stride + c]), terms = std::abs(expected);
                for (std::size_t i = 0; c < columns && i < depth; ++i) {
                    const double term = static_cast<double>(factor) * static_cast<double>(x[r * x_stride + i]) *
                                        static_cast<double>(w[c * w_column + i * w_row]);
                    expected += term;
                    terms += std::abs(term);
                }
                const double bound = c < columns ? (static_cast<double>(depth) + 8) * 0x1p-24 * terms : 0;
                wrong += !(std::abs(static_cast<double>(y[r * y_stride + c]) - expected) <= bound);
            }
        return wrong;
    };
    for (const cpu::FloatPanelKernels* kernels : kinds_of_panels()) {
        std::vector<float> y = before;
        const cpu::SmallFloatProduct product(rows, depth, x.data(), x_stride, scale, *kernels);
        product.add(columns, w.data(), depth + 2, y.data(), y_stride);
        CHECK(count_wrong(y, depth + 2, 1, scale) == 0);
        y = before;
        cpu::add_small_float_product({.rows = rows,
                                      .columns = columns,
                                      .depth = depth,
                                      .x = x.data(),
                                      .x_stride = x_stride,
                                      .w = w.data(),
                                      .w_stride = columns,
                                      .y = y.data(),
                                      .y_stride = y_stride},
                                     *kernels);
        CHECK(count_wrong(y, 1, columns, 1) == 0);
    }
}

TEST_CASE("what is not finite stays in its row and column of a product", "[cpu][float_product]") {
    constexpr std::size_t kRows = 21, kIn = 70, kOut = 30;
    std::vector<float> x = random_numbers(kRows * kIn, 1), w = random_numbers(kOut * kIn, 2);
    x[4 * kIn + 69] = std::nanf("");
    w[17 * kIn + 3] = INFINITY;
    const auto check = [](const std::vector<float>& y) {
        for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::isfinite(y[i]) == (i / kOut != 4 && i % kOut != 17));
    };
    for (const cpu::FloatPanelKernels* kernels : kinds_of_panels()) {
        std::vector<float> y(kRows * kOut, 0.0f);
        cpu::add_float_product(x.data(), w.data(), kRows, kIn, kOut, y.data(), *kernels);
        check(y);
        std::ranges::fill(y, 0.0f);
        cpu::SmallFloatProduct(kRows, kIn, x.data(), kIn, 1, *kernels).add(kOut, w.data(), kIn, y.data(), kOut);
        check(y);
    }
}

}  // namespace vkformer::tests
