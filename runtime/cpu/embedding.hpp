// SPDX-License-Identifier: MIT
#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace vkformer::cpu {

// y[n, i] = scale · table[tokens[n], i]     table: [vocab, dim]; NaN where tokens[n] is outside 0 … vocab−1.
// Scale √dim: Vaswani et al. 2017, section 3.4.
template <std::floating_point T>
void embedding(std::span<const std::int32_t> tokens, std::span<const T> table, std::size_t dim, T scale,
               std::span<T> y) {
    assert(y.size() == tokens.size() * dim && table.size() % dim == 0);
    const std::size_t vocab = table.size() / dim;
    for (std::size_t n = 0; n < tokens.size(); ++n) {
        const bool known = tokens[n] >= 0 && static_cast<std::size_t>(tokens[n]) < vocab;
        const std::size_t row = known ? static_cast<std::size_t>(tokens[n]) * dim : 0;
        for (std::size_t i = 0; i < dim; ++i)
            y[n * dim + i] = known ? scale * table[row + i] : std::numeric_limits<T>::quiet_NaN();
    }
}

}  // namespace vkformer::cpu
