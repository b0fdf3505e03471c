// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

#include "cpu/arg_max.hpp"

namespace vkformer::cpu {

// The k = values.size() largest of x in falling order with their indices, the lower index first on ties, NaN above everything. A heap
// holds the best so far, the last of them in front; an index that comes later ranks below its ties. Most blocks have nothing for it.
template <std::floating_point T>
void top_k(std::span<const T> x, std::span<T> values, std::span<std::int32_t> indices) {
    assert(values.size() <= x.size() && indices.size() == values.size());
    constexpr std::size_t kBlock = 64;
    const std::size_t k = values.size();
    if (k == 0) return;
    const auto value = [&](std::int32_t i) { return x[static_cast<std::size_t>(i)]; };
    const auto ranks_before = [&](std::int32_t a, std::int32_t b) {
        return ranks_above(value(a), value(b)) || (!ranks_above(value(b), value(a)) && a < b);
    };
    std::iota(indices.begin(), indices.end(), 0);
    std::ranges::make_heap(indices, ranks_before);
    T least = value(indices.front());
    for (std::size_t first = k; first < x.size(); first += kBlock) {
        const std::size_t last = std::min(first + kBlock, x.size());
        std::int32_t not_below = 0;
        for (std::size_t i = first; i < last; ++i) not_below += x[i] <= least ? 0 : 1;
        for (std::size_t i = first; i < last && not_below > 0; ++i) {
            if (!ranks_above(x[i], least)) continue;
            std::ranges::pop_heap(indices, ranks_before);
            indices.back() = static_cast<std::int32_t>(i);
            std::ranges::push_heap(indices, ranks_before);
            least = value(indices.front());
        }
    }
    std::ranges::sort_heap(indices, ranks_before);
    std::ranges::transform(indices, values.begin(), value);
}

}  // namespace vkformer::cpu
