// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace vkformer::cpu {

/// Whether a ranks strictly above b: a NaN above every number, level with another NaN.
template <std::floating_point T>
bool ranks_above(T a, T b) {
    return a > b || (std::isnan(a) && !std::isnan(b));
}

/// The index of the largest element of x, the lowest on ties, NaN above everything.
template <std::floating_point T>
std::size_t index_of_first(std::span<const T> x) {
    constexpr std::size_t kBlock = 64;
    std::size_t best = 0;
    for (std::size_t first = 1; first < x.size(); first += kBlock) {
        const std::size_t last = std::min(first + kBlock, x.size());
        const T largest = x[best];
        std::int32_t not_below = 0;  // most blocks have nothing
        for (std::size_t i = first; i < last; ++i) not_below += x[i] <= largest ? 0 : 1;
        for (std::size_t i = first; i < last && not_below > 0; ++i)
            if (ranks_above(x[i], x[best])) best = i;
    }
    return best;
}

/// The same, but −1 where there is a NaN.
template <std::floating_point T>
std::int32_t arg_max(std::span<const T> x) {
    const std::size_t best = index_of_first(x);
    return std::isnan(x[best]) ? -1 : static_cast<std::int32_t>(best);
}

}  // namespace vkformer::cpu
