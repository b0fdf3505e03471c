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

struct RopeDims {
    std::size_t batch, len, heads, head_dim;
    std::size_t positions, rotary_dim;  // of the table
};

// y = x with its first rotary_dim elements turned: pair k = (u, v) becomes (u · cos − v · sin, v · cos + u · sin), one head.
// angles: rotary_dim / 2 cosines, then as many sines.
template <std::floating_point T>
void rope_head(std::span<const T> x, std::span<const T> angles, graph::RopePairing pairing, std::span<T> y) {
    const std::size_t half = angles.size() / 2;
    std::ranges::copy(x, y.begin());
    for (std::size_t k = 0; k < half; ++k) {
        const bool interleaved = pairing == graph::RopePairing::interleaved;
        const std::size_t first = interleaved ? 2 * k : k, second = interleaved ? 2 * k + 1 : k + half;
        y[first] = x[first] * angles[k] - x[second] * angles[half + k];
        y[second] = x[second] * angles[k] + x[first] * angles[half + k];
    }
}

// y[b, i, h, :] = x[b, i, h, :] turned by the angles of position starts[b] + i; NaN where that is outside the table.
// x, y: [batch, len, heads, head_dim], table: [positions, rotary_dim]; `starts` may be empty: 0. Su et al. 2021, eq. 34.
template <std::floating_point T>
void rope(std::span<const T> x, std::span<const T> table, std::span<const std::int32_t> starts,
          graph::RopePairing pairing, const RopeDims& dims, std::span<T> y) {
    assert(y.size() == x.size() && x.size() == dims.batch * dims.len * dims.heads * dims.head_dim);
    for (std::size_t token = 0; token < dims.batch * dims.len; ++token) {
        const std::int64_t start = starts.empty() ? 0 : starts[token / dims.len];
        const std::int64_t position = start + static_cast<std::int64_t>(token % dims.len);
        const bool known = position >= 0 && position < static_cast<std::int64_t>(dims.positions);
        for (std::size_t head = token * dims.heads; head < (token + 1) * dims.heads; ++head) {
            const std::span<T> y_head = y.subspan(head * dims.head_dim, dims.head_dim);
            if (!known) {
                std::ranges::fill(y_head, std::numeric_limits<T>::quiet_NaN());
                continue;
            }
            rope_head<T>(x.subspan(head * dims.head_dim, dims.head_dim),
                         table.subspan(static_cast<std::size_t>(position) * dims.rotary_dim, dims.rotary_dim), pairing,
                         y_head);
        }
    }
}

}  // namespace vkformer::cpu
