// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace vkformer::cpu {

// y[b, h, i, j] = table[h, clamp(j − (starts[b] + i), −reach, reach) + reach]     table: [heads, 2 · reach + 1],
// y: [batch, heads, query_len, key_len]. `starts` may be empty: 0. Raffel et al. 2020, section 2.1.
template <std::floating_point T>
void relative_bias(std::span<const T> table, std::span<const std::int32_t> starts, std::size_t heads,
                   std::size_t query_len, std::size_t key_len, std::span<T> y) {
    const std::size_t batch = y.size() / (heads * query_len * key_len), distances = table.size() / heads;
    assert(starts.empty() ? batch == 1 : batch == starts.size());
    const auto reach = static_cast<std::int64_t>(distances / 2);
    std::size_t at = 0;
    for (std::size_t b = 0; b < batch; ++b) {
        for (std::size_t h = 0; h < heads; ++h) {
            for (std::size_t i = 0; i < query_len; ++i) {
                const std::int64_t query =
                    (starts.empty() ? 0 : std::int64_t{starts[b]}) + static_cast<std::int64_t>(i);
                for (std::size_t j = 0; j < key_len; ++j) {
                    const std::int64_t distance = std::clamp(static_cast<std::int64_t>(j) - query, -reach, reach);
                    y[at++] = table[h * distances + static_cast<std::size_t>(distance + reach)];
                }
            }
        }
    }
}

}  // namespace vkformer::cpu
