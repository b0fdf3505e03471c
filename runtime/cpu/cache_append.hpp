// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace vkformer::cpu {

struct CacheDims {
    std::size_t rows, capacity, width;  // width = heads · dim, of tokens 1
};

// cache[b, starts[b] + i, :] = x[b, i, :]     x: [rows, len, width], cache: [rows, capacity, width]; positions outside the cache
// are not written. `starts` may be empty: 0.
template <class T>
void cache_append(std::span<const T> x, std::span<const std::int32_t> starts, std::size_t len, const CacheDims& dims,
                  std::span<T> cache) {
    for (std::size_t b = 0; b < dims.rows; ++b)
        for (std::size_t i = 0; i < len; ++i) {
            const std::int64_t position = (starts.empty() ? 0 : std::int64_t{starts[b]}) + static_cast<std::int64_t>(i);
            if (position < 0 || position >= static_cast<std::int64_t>(dims.capacity)) continue;
            const std::size_t to = (b * dims.capacity + static_cast<std::size_t>(position)) * dims.width;
            const std::size_t from = (b * len + i) * dims.width;
            for (std::size_t d = 0; d < dims.width; ++d) cache[to + d] = x[from + d];
        }
}

}  // namespace vkformer::cpu
