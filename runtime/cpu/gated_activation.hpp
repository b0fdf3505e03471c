// SPDX-License-Identifier: MIT
#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>
#include <span>

#include "cpu/activate.hpp"

namespace vkformer::cpu {

// y[i] = f(gate[i]) · up[i], or with a clamp f(min(gate[i], limit)) · (clamp(up[i], −limit, limit) + shift). Shazeer 2020, eq. 5 and 6.
template <std::floating_point T>
void gated_activation(std::span<const T> gate, std::span<const T> up, graph::Activation activation, std::span<T> y,
                      const graph::GateClamp& clamp = {}) {
    assert(up.size() == gate.size() && y.size() == gate.size());
    if (clamp) {
        const T limit = static_cast<T>(clamp.limit), shift = static_cast<T>(clamp.up_shift);
        for (std::size_t i = 0; i < gate.size(); ++i) {
            const T g = gate[i] > limit ? limit : gate[i];  // a NaN stays one
            const T u = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
            y[i] = activation_of(activation, g) * (u + shift);
        }
        return;
    }
    activate<T>(gate, activation, y);
    for (std::size_t i = 0; i < gate.size(); ++i) y[i] *= up[i];
}

// y = f(the first half of `both`) · the second.
template <std::floating_point T>
void gated_halves(std::span<const T> both, graph::Activation activation, std::span<T> y,
                  const graph::GateClamp& clamp = {}) {
    gated_activation<T>(both.first(y.size()), both.last(y.size()), activation, y, clamp);
}

}  // namespace vkformer::cpu
