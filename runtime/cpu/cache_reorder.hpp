// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu/cache_append.hpp"

namespace vkformer::cpu {

// cache[r, p, :] = old cache[parents[r], p, :] for begins[r] ≤ p < lengths[r]     cache: [rows, capacity, width]. `begins` may be
// empty: 0. A parent outside the row's group of `beams` rows leaves the row as it is.
template <class T>
void cache_reorder(std::span<const std::int32_t> parents, std::span<const std::int32_t> begins,
                   std::span<const std::int32_t> lengths, std::size_t beams, const CacheDims& dims,
                   std::span<T> cache) {
    struct Elements {
        std::size_t begin, end;  // of a row
    };
    const std::size_t row_size = dims.capacity * dims.width;
    /// Where `position` begins, in elements of a row.
    const auto offset = [&](std::int32_t position) {
        return std::min(static_cast<std::size_t>(std::max(position, 0)), dims.capacity) * dims.width;
    };
    std::vector<T> old;
    for (std::size_t first = 0; first < dims.rows; first += beams) {
        /// What the row gets from a parent in the group.
        const auto moved = [&](std::size_t row) -> Elements {
            const std::int64_t parent = parents[row], at = static_cast<std::int64_t>(first);
            const bool moves = parent >= at && parent < at + static_cast<std::int64_t>(beams) &&
                               parent != static_cast<std::int64_t>(row);
            const std::size_t begin = begins.empty() ? 0 : offset(begins[row]), end = offset(lengths[row]);
            return moves && begin < end ? Elements{begin, end} : Elements{row_size, 0};
        };
        Elements all = {row_size, 0};
        for (std::size_t row = first; row < first + beams; ++row)
            all = {std::min(all.begin, moved(row).begin), std::max(all.end, moved(row).end)};
        if (all.begin >= all.end) continue;
        const std::size_t count = all.end - all.begin;
        old.resize(beams * count);
        for (std::size_t beam = 0; beam < beams; ++beam)
            std::ranges::copy(cache.subspan((first + beam) * row_size + all.begin, count),
                              old.begin() + static_cast<std::ptrdiff_t>(beam * count));
        for (std::size_t row = first; row < first + beams; ++row) {
            const Elements own = moved(row);
            if (own.begin >= own.end) continue;
            const std::size_t parent = static_cast<std::size_t>(parents[row]) - first;
            std::ranges::copy(std::span(old).subspan(parent * count + own.begin - all.begin, own.end - own.begin),
                              cache.begin() + static_cast<std::ptrdiff_t>(row * row_size + own.begin));
        }
    }
}

}  // namespace vkformer::cpu
