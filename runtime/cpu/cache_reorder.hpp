// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu/cache_append.hpp"

namespace vkformer::cpu {

// cache[r, p, :] = old cache[parents[r], p, :] for p < lengths[r]     cache: [rows, capacity, width]. A parent outside the row's
// group of `beams` rows leaves the row as it is.
template <class T>
void cache_reorder(std::span<const std::int32_t> parents, std::span<const std::int32_t> lengths, std::size_t beams,
                   const CacheDims& dims, std::span<T> cache) {
    const std::vector<T> old(cache.begin(), cache.end());
    for (std::size_t r = 0; r < dims.rows; ++r) {
        const std::size_t group = r / beams * beams;
        if (parents[r] < 0 || lengths[r] <= 0) continue;
        const auto parent = static_cast<std::size_t>(parents[r]);
        if (parent < group || parent >= group + beams) continue;
        const std::size_t length = std::min(static_cast<std::size_t>(lengths[r]), dims.capacity);
        for (std::size_t k = 0; k < length * dims.width; ++k)
            cache[r * dims.capacity * dims.width + k] = old[parent * dims.capacity * dims.width + k];
    }
}

}  // namespace vkformer::cpu
