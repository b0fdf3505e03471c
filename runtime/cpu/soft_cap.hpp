// SPDX-License-Identifier: MIT
#pragma once

#include <cassert>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>

namespace vkformer::cpu {

// cap · tanh(x / cap): x, bounded smoothly by ±cap. Gemma Team 2024 (arXiv 2408.00118), section 2.
template <std::floating_point T>
T soft_capped(T x, T cap) {
    return cap * std::tanh(x / cap);
}

template <std::floating_point T>
void soft_cap(std::span<const T> x, T cap, std::span<T> y) {
    assert(y.size() == x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = soft_capped(x[i], cap);
}

}  // namespace vkformer::cpu
