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
    const std::size_t row_size = dims.capacity * dims.width;
    std::vector<T> old;
    for (std::size_t first = 0; first < dims.rows; first += beams) {
        /// How many elements the row gets, from a parent in the group.
        const auto moved = [&](std::size_t row) -> std::size_t {
            const std::int64_t parent = parents[row], at = static_cast<std::int64_t>(first);
            const bool moves = parent >= at && parent < at + static_cast<std::int64_t>(beams) &&
                               parent != static_cast<std::int64_t>(row) && lengths[row] > 0;
            return moves ? std::min(static_cast<std::size_t>(lengths[row]), dims.capacity) * dims.width : 0;
        };
        std::size_t longest = 0;
        for (std::size_t row = first; row < first + beams; ++row) longest = std::max(longest, moved(row));
        if (longest == 0) continue;
        old.resize(beams * longest);
        for (std::size_t beam = 0; beam < beams; ++beam)
            std::ranges::copy(cache.subspan((first + beam) * row_size, longest),
                              old.begin() + static_cast<std::ptrdiff_t>(beam * longest));
        for (std::size_t row = first; row < first + beams; ++row) {
            const std::size_t count = moved(row);
            if (count == 0) continue;
            const std::size_t parent = static_cast<std::size_t>(parents[row]) - first;
            std::ranges::copy(std::span(old).subspan(parent * longest, count),
                              cache.begin() + static_cast<std::ptrdiff_t>(row * row_size));
        }
    }
}

}  // namespace vkformer::cpu
