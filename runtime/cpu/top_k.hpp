// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "cpu/arg_max.hpp"

namespace vkformer::cpu {

// The k = values.size() largest of x in falling order with their indices, the lower index first on ties, NaN above everything.
template <std::floating_point T>
void top_k(std::span<const T> x, std::span<T> values, std::span<std::int32_t> indices) {
    assert(values.size() <= x.size() && indices.size() == values.size());
    std::vector<std::int32_t> order(x.size());
    std::iota(order.begin(), order.end(), 0);
    const auto k = static_cast<std::ptrdiff_t>(values.size());
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](std::int32_t a, std::int32_t b) {
        const T x_a = x[static_cast<std::size_t>(a)], x_b = x[static_cast<std::size_t>(b)];
        return ranks_above(x_a, x_b) || (!ranks_above(x_b, x_a) && a < b);
    });
    for (std::size_t i = 0; i < values.size(); ++i) {
        indices[i] = order[i];
        values[i] = x[static_cast<std::size_t>(order[i])];
    }
}

}  // namespace vkformer::cpu
