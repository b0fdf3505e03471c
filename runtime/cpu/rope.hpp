// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "graph/ops.hpp"

namespace vkformer::cpu {

// y = x with its first rotary_dim elements turned: pair k = (u, v) becomes (u · cos − v · sin, v · cos + u · sin), one head.
// angles: rotary_dim / 2 cosines, then as many sines.
template <std::floating_point T>
void rope_head(std::span<const T> x, std::span<const T> angles, graph::RopePairing pairing, std::span<T> y) {
    const std::size_t half = angles.size() / 2;
    std::ranges::copy(x.subspan(2 * half), y.subspan(2 * half).begin());
    for (std::size_t k = 0; k < half; ++k) {
        const bool interleaved = pairing == graph::RopePairing::interleaved;
        const std::size_t first = interleaved ? 2 * k : k, second = interleaved ? 2 * k + 1 : k + half;
        y[first] = x[first] * angles[k] - x[second] * angles[half + k];
        y[second] = x[second] * angles[k] + x[first] * angles[half + k];
    }
}

}  // namespace vkformer::cpu
