// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cpu/rms_norm.hpp"
#include "cpu/rope.hpp"
#include "graph/ops.hpp"

namespace vkformer::cpu {

struct SplitQkvDims {
    std::size_t batch, len, heads, kv_heads, head_dim;
    std::size_t capacity;               // of the caches
    std::size_t positions, rotary_dim;  // of the table; 0: none
};

/// The norms of queries and keys: gains [head_dim], or none.
template <std::floating_point T>
struct SplitQkvNorms {
    std::span<const T> query_gain, key_gain;
    T gain_offset, eps;
};

template <std::floating_point T>
struct SplitQkvResults {
    std::span<T> query, key_cache, value_cache;
};

// query = the first heads of qkv, normed and turned; key_cache[b, starts[b] + i] = the next kv_heads, likewise, value_cache[…] = the last ones.
// qkv: [batch, len, heads + 2 · kv_heads, head_dim], caches: [batch, capacity, kv_heads, head_dim], positions outside which are not
// written; table: [positions, rotary_dim], positions outside which give NaN, or empty: nothing is turned; `starts` may be empty: 0.
template <std::floating_point T>
void split_qkv(std::span<const T> qkv, std::span<const T> table, std::span<const std::int32_t> starts,
               graph::RopePairing pairing, const SplitQkvNorms<T>& norms, const SplitQkvDims& dims,
               const SplitQkvResults<T>& results) {
    const std::size_t all_heads = dims.heads + 2 * dims.kv_heads, d = dims.head_dim;
    assert(qkv.size() == dims.batch * dims.len * all_heads * d);
    std::vector<T> normed(norms.query_gain.empty() ? 0 : d);
    const auto place = [&](std::span<const T> x, std::span<const T> gain, std::int64_t position, std::span<T> y) {
        if (!gain.empty()) {
            rms_norm<T>(x, gain, norms.gain_offset, norms.eps, normed);
            x = normed;
        }
        if (table.empty()) {
            std::ranges::copy(x, y.begin());
        } else if (position < 0 || position >= static_cast<std::int64_t>(dims.positions)) {
            std::ranges::fill(y, std::numeric_limits<T>::quiet_NaN());
        } else {
            const auto row = static_cast<std::size_t>(position) * dims.rotary_dim;
            rope_head<T>(x, table.subspan(row, dims.rotary_dim), pairing, y);
        }
    };
    for (std::size_t token = 0; token < dims.batch * dims.len; ++token) {
        const std::size_t batch = token / dims.len;
        const std::int64_t start = starts.empty() ? 0 : starts[batch];
        const std::int64_t position = start + static_cast<std::int64_t>(token % dims.len);
        const auto head = [&](std::size_t index) { return qkv.subspan((token * all_heads + index) * d, d); };
        for (std::size_t h = 0; h < dims.heads; ++h)
            place(head(h), norms.query_gain, position, results.query.subspan((token * dims.heads + h) * d, d));
        if (position < 0 || position >= static_cast<std::int64_t>(dims.capacity)) continue;
        const std::size_t row = (batch * dims.capacity + static_cast<std::size_t>(position)) * dims.kv_heads;
        for (std::size_t h = 0; h < dims.kv_heads; ++h) {
            place(head(dims.heads + h), norms.key_gain, position, results.key_cache.subspan((row + h) * d, d));
            std::ranges::copy(head(dims.heads + dims.kv_heads + h),
                              results.value_cache.subspan((row + h) * d, d).begin());
        }
    }
}

}  // namespace vkformer::cpu
