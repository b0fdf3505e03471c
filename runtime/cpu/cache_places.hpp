// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "cpu/operands.hpp"
#include "graph/pages.hpp"

namespace vkformer::cpu {

/// Where the positions of a sequence lie in a cache, as rows of it: cache[b · capacity + p] for [batch, capacity, …], or in pages
/// (graph/pages.hpp) cache[table[b, p / page_len] · page_len + p % page_len].
class CachePlaces {
public:
    explicit CachePlaces(std::size_t capacity) : capacity_(capacity) {}
    /// table: [batch, capacity / kPageLen]
    CachePlaces(std::span<const std::int32_t> table, std::size_t capacity, std::size_t pages)
        : table_(table), capacity_(capacity), pages_(pages) {}

    /// Calls visit(first, last, row) for positions first … last − 1 of a sequence that lie side by side, from `row` on, until all of
    /// first … last − 1 were visited. A page that there is not is the last one.
    void for_each_run(std::size_t b, std::size_t first, std::size_t last, auto&& visit) const {
        if (table_.empty()) {
            if (first < last) visit(first, last, b * capacity_ + first);
            return;
        }
        while (first < last) {
            const std::size_t end = std::min(last, (first / graph::kPageLen + 1) * graph::kPageLen);
            visit(first, end, row_in(std::min(page_of(b, first), pages_ - 1), first));
            first = end;
        }
    }

    /// For who writes: nothing outside the cache, or in a page that there is not.
    std::optional<std::size_t> row_of(std::size_t b, std::int64_t position) const {
        if (position < 0 || position >= static_cast<std::int64_t>(capacity_)) return std::nullopt;
        const auto p = static_cast<std::size_t>(position);
        if (table_.empty()) return b * capacity_ + p;
        const std::size_t page = page_of(b, p);
        return page < pages_ ? std::optional(row_in(page, p)) : std::nullopt;
    }

private:
    /// A negative one is larger than any.
    std::size_t page_of(std::size_t b, std::size_t p) const {
        return static_cast<std::uint32_t>(table_[b * (capacity_ / graph::kPageLen) + p / graph::kPageLen]);
    }
    static std::size_t row_in(std::size_t page, std::size_t p) { return page * graph::kPageLen + p % graph::kPageLen; }

    std::span<const std::int32_t> table_;  // empty: no pages
    std::size_t capacity_, pages_ = 0;     // positions of a sequence; of the cache
};

template <std::floating_point T>
CachePlaces cache_places(graph::Value cache, graph::Value pages, const Operands<T>& operands) {
    if (!pages) return CachePlaces(operands.dim(cache, 1));
    return {operands.ints(pages), operands.dim(pages, 1) * graph::kPageLen, operands.dim(cache, 0)};
}

}  // namespace vkformer::cpu
