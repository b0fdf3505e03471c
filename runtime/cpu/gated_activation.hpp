// SPDX-License-Identifier: MIT
#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>
#include <span>

#include "cpu/activate.hpp"

namespace vkformer::cpu {

// y[i] = f(gate[i]) · up[i]. Shazeer 2020, eq. 5 and 6.
template <std::floating_point T>
void gated_activation(std::span<const T> gate, std::span<const T> up, graph::Activation activation, std::span<T> y) {
    assert(up.size() == gate.size() && y.size() == gate.size());
    activate<T>(gate, activation, y);
    for (std::size_t i = 0; i < gate.size(); ++i) y[i] *= up[i];
}

// y = f(the first half of `both`) · the second.
template <std::floating_point T>
void gated_halves(std::span<const T> both, graph::Activation activation, std::span<T> y) {
    gated_activation<T>(both.first(y.size()), both.last(y.size()), activation, y);
}

}  // namespace vkformer::cpu
