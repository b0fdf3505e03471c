// SPDX-License-Identifier: MIT
/// Caches in pages: states [pages, kPageLen, …] of which a table i32 [rows, table_len] says which are a row's. Position p of row r lies at
/// cache[table[r, p / kPageLen], p % kPageLen], so that rows of any length share one pool of memory, and rows that begin alike whole pages.
#pragma once

#include <cstdint>

#include "graph/graph.hpp"

namespace vkformer::graph {

/// Positions of a page: the longest tile of keys that the kernels take at a time lies in one or in two.
inline constexpr std::uint64_t kPageLen = 64;

/// Pages that so many positions need.
constexpr std::uint64_t page_count(std::uint64_t positions) noexcept { return (positions + kPageLen - 1) / kPageLen; }

/// Positions of a row of a cache, which lies in pages where there is a table.
inline std::uint64_t capacity_of(const Graph& graph, Value cache, Value table) {
    return table ? graph.shape(table)[1] * kPageLen : graph.shape(cache)[1];
}

}  // namespace vkformer::graph
