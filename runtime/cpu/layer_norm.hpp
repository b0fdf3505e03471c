// SPDX-License-Identifier: MIT
#pragma once

#include <cassert>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>

namespace vkformer::cpu {

// y[i] = gain[i] · (x[i] − mean(x)) / sqrt(var(x) + eps) + bias[i], one row; var(x) = mean((x − mean(x))²).
// Ba et al. 2016, eq. 4; eps against division by zero as in PyTorch. bias may be empty.
template <std::floating_point T>
void layer_norm(std::span<const T> x, std::span<const T> gain, std::span<const T> bias, T eps, std::span<T> y) {
    assert(gain.size() == x.size() && y.size() == x.size());
    const T width = static_cast<T>(x.size());
    T sum = 0;
    for (const T value : x) sum += value;
    const T mean = sum / width;

    T square_sum = 0;
    for (const T value : x) square_sum += (value - mean) * (value - mean);
    const T scale = 1 / std::sqrt(square_sum / width + eps);
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = gain[i] * (x[i] - mean) * scale + (bias.empty() ? T{0} : bias[i]);
}

}  // namespace vkformer::cpu
