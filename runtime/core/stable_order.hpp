// SPDX-License-Identifier: MIT
/// Sorting that is compiled once: std::stable_sort is four kilobytes of code for each type and each order.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace vkformer {

/// The places 0 … count − 1 in the order of `before`, a strict weak order of places; what is level keeps its order.
std::vector<std::size_t> stable_order(std::size_t count,
                                      const std::function<bool(std::size_t a, std::size_t b)>& before);

/// Puts the items into the order of before(a, b).
template <class T>
void sort_stably(std::vector<T>& items, auto&& before) {
    const auto order =
        stable_order(items.size(), [&](std::size_t a, std::size_t b) { return before(items[a], items[b]); });
    std::vector<T> sorted;
    sorted.reserve(items.size());
    for (const std::size_t place : order) sorted.push_back(std::move(items[place]));
    items = std::move(sorted);
}

}  // namespace vkformer
