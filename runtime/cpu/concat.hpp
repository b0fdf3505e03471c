// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>

namespace vkformer::cpu {

// y[row, :] = [a[row, :] | b[row, :]]     a: [rows, a_width], b: [rows, b_width]
template <std::floating_point T>
void concat(std::span<const T> a, std::span<const T> b, std::size_t a_width, std::size_t b_width, std::span<T> y) {
    for (std::size_t row = 0; row * a_width < a.size(); ++row) {
        const std::span<T> to = y.subspan(row * (a_width + b_width));
        std::ranges::copy(a.subspan(row * a_width, a_width), to.begin());
        std::ranges::copy(b.subspan(row * b_width, b_width), to.subspan(a_width).begin());
    }
}

}  // namespace vkformer::cpu
