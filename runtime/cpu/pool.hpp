// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/ops.hpp"

namespace vkformer::cpu {

/// What token i of n counts for in a sum of all of them.
template <std::floating_point T>
T pooling_weight(graph::Pooling pooling, std::size_t i, std::size_t n) {
    const T count = static_cast<T>(n);
    switch (pooling) {
    case graph::Pooling::first: return i == 0 ? T{1} : T{0};
    case graph::Pooling::last: return i + 1 == n ? T{1} : T{0};
    case graph::Pooling::mean: return 1 / count;
    case graph::Pooling::root_mean: return 1 / std::sqrt(count);
    case graph::Pooling::weighted_mean: return 2 * static_cast<T>(i + 1) / (count * (count + 1));
    case graph::Pooling::max: break;  // no sum
    }
    return 0;
}

// y = what `pooling` makes of the rows of x [n, dim]: a weighted sum of them, or the largest of each column, where NaN wins.
// Zeros for n = 0. Rows that count for nothing are not read.
template <std::floating_point T>
void pool(std::span<const T> x, graph::Pooling pooling, std::span<T> y) {
    const std::size_t dim = y.size(), n = x.size() / dim;
    std::ranges::fill(y, T{0});
    if (pooling == graph::Pooling::max && n > 0) std::ranges::copy(x.first(dim), y.begin());
    for (std::size_t i = 0; i < n; ++i) {
        const std::span<const T> row = x.subspan(i * dim, dim);
        const T weight = pooling_weight<T>(pooling, i, n);
        for (std::size_t d = 0; d < dim; ++d) {
            if (pooling == graph::Pooling::max)
                y[d] = std::isnan(row[d]) || row[d] > y[d] ? row[d] : y[d];
            else if (weight != 0)
                y[d] += weight * row[d];
        }
    }
}

}  // namespace vkformer::cpu
