// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>

#include "cpu/float_kernels.hpp"

namespace vkformer::cpu {

// y[i] = (x[i] − m) − log Σ_j exp(x[j] − m), m = max x, one row. −∞ stays −∞ beside finite elements; a row of −∞ alone is NaN.
template <std::floating_point T>
void log_softmax(std::span<const T> x, std::span<T> y) {
    assert(y.size() == x.size() && !x.empty());
    T max = 0, sum = 0;
    if constexpr (std::same_as<T, float>) {
        max = float_kernels().max_of(x.data(), x.size());
        std::ranges::copy(x, y.begin());
        sum = float_kernels().exponentiate(y.data(), y.size(), max);
    } else {
        max = *std::ranges::max_element(x);
        for (const T value : x) sum += std::exp(value - max);
    }
    const T log_sum = std::log(sum);
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = (x[i] - max) - log_sum;
}

}  // namespace vkformer::cpu
