// SPDX-License-Identifier: MIT
#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>
#include <span>

namespace vkformer::cpu {

// y[i] = a[i] + b[i]
template <std::floating_point T>
void add(std::span<const T> a, std::span<const T> b, std::span<T> y) {
    assert(b.size() == a.size() && y.size() == a.size());
    for (std::size_t i = 0; i < a.size(); ++i) y[i] = a[i] + b[i];
}

}  // namespace vkformer::cpu
