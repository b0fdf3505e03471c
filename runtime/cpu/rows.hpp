// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>

#include "cpu/parallel.hpp"

namespace vkformer::cpu {

/// Row `row` of elements [rows, width].
template <class Element>
std::span<Element> row_of(std::span<Element> elements, std::size_t row, std::size_t width) {
    return elements.subspan(row * width, width);
}

/// Calls work(row) for rows of so many elements, over several threads; eight multiplications stand for an element's share of a root or an
/// exponential.
void for_rows(std::size_t rows, std::size_t width, auto&& work) {
    parallel_for(rows, slice_of(rows, 8 * width), [&](std::size_t first, std::size_t last, std::size_t) {
        for (std::size_t row = first; row < last; ++row) work(row);
    });
}

}  // namespace vkformer::cpu
