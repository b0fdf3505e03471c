// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>

#include "cpu/blas.hpp"
#include "cpu/rows.hpp"

namespace vkformer::cpu {

// y[i] = (gain[i] + gain_offset) · x[i] / sqrt(mean(x²) + eps), one row. Zhang and Sennrich 2019, eq. 4; eps against division
// by zero as in Llama. gain may be empty: 1.
template <std::floating_point T>
void rms_norm(std::span<const T> x, std::span<const T> gain, T gain_offset, T eps, std::span<T> y) {
    assert((gain.empty() || gain.size() == x.size()) && y.size() == x.size());
    T square_sum = 0;
    add_matrix_vector(1, x.size(), T{1}, {x.data(), x.size()}, x.data(), &square_sum);
    const T scale = 1 / std::sqrt(square_sum / static_cast<T>(x.size()) + eps);
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = ((gain.empty() ? T{1} : gain[i]) + gain_offset) * x[i] * scale;
}

// The same of all rows, which take the rows of the gains by turns.
template <std::floating_point T>
void rms_norm_rows(std::span<const T> x, std::size_t width, std::span<const T> gain, T gain_offset, T eps,
                   std::span<T> y) {
    const std::size_t gain_rows = std::max<std::size_t>(1, gain.size() / width);
    for_rows(x.size() / width, width, [&](std::size_t row) {
        const auto own = gain.empty() ? gain : row_of(gain, row % gain_rows, width);
        rms_norm<T>(row_of(x, row, width), own, gain_offset, eps, row_of(y, row, width));
    });
}

}  // namespace vkformer::cpu
