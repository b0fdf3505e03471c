// SPDX-License-Identifier: MIT
#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace vkformer::cpu {

// y[b, i, :] = x[b, i, :] + table[starts[b] + i, :]     x: [batch, len, dim], table: [positions, dim]; NaN where the position
// is outside the table. `starts` may be empty: 0. Vaswani et al. 2017, section 3.5.
template <std::floating_point T>
void positional_embedding(std::span<const T> x, std::span<const T> table, std::span<const std::int32_t> starts,
                          std::size_t len, std::size_t dim, std::span<T> y) {
    assert(y.size() == x.size() && x.size() % (len * dim) == 0 && table.size() % dim == 0);
    const std::size_t batch = x.size() / (len * dim);
    const auto positions = static_cast<std::int64_t>(table.size() / dim);
    for (std::size_t b = 0; b < batch; ++b) {
        for (std::size_t i = 0; i < len; ++i) {
            const std::int64_t position = (starts.empty() ? 0 : std::int64_t{starts[b]}) + static_cast<std::int64_t>(i);
            const bool known = position >= 0 && position < positions;
            const std::size_t row = known ? static_cast<std::size_t>(position) * dim : 0;
            const std::size_t base = (b * len + i) * dim;
            for (std::size_t d = 0; d < dim; ++d)
                y[base + d] = known ? x[base + d] + table[row + d] : std::numeric_limits<T>::quiet_NaN();
        }
    }
}

}  // namespace vkformer::cpu
