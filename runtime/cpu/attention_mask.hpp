// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cpu/operands.hpp"

namespace vkformer::cpu {

struct KeyRange {
    std::size_t first, last;  // keys first … last − 1
};

/// The keys that are in both; of none, first == last.
inline KeyRange common_part(KeyRange a, KeyRange b) {
    const std::size_t first = std::max(a.first, b.first);
    return {first, std::max(first, std::min(a.last, b.last))};
}

/// graph::AttentionMask with its tensors; spans may be empty.
template <std::floating_point T>
struct Mask {
    bool causal = false;
    std::uint32_t window = 0;
    std::span<const std::int32_t> key_lengths, starts;
    std::span<const T> additive;  // [batch or 1, heads or 1, query_len or 1, key_len]
    std::size_t additive_batch = 1, additive_heads = 1, additive_queries = 1;
    std::span<const T> sinks;  // [heads]

    /// The keys that query i of sequence b sees, at position p = starts[b] + i: j < key_lengths[b], causal j ≤ p, window
    /// |p − j| < window. They are always neighbours; the additive mask may still make one of them −∞.
    KeyRange seen_keys(std::size_t b, std::size_t i, std::size_t key_len) const {
        const std::int64_t p = (starts.empty() ? 0 : std::int64_t{starts[b]}) + static_cast<std::int64_t>(i);
        std::int64_t first = 0;
        auto last = static_cast<std::int64_t>(key_len);
        if (!key_lengths.empty()) last = std::min(last, std::int64_t{key_lengths[b]});
        if (causal) last = std::min(last, p + 1);
        if (window > 0) {
            first = std::max(first, p - window + 1);
            last = std::min(last, p + window);
        }
        if (first >= last) return {0, 0};
        return {static_cast<std::size_t>(first), static_cast<std::size_t>(last)};
    }

    /// What is added to the score of key j.
    T addend(std::size_t b, std::size_t h, std::size_t i, std::size_t j, std::size_t key_len) const {
        if (additive.empty()) return 0;
        const std::size_t row =
            ((additive_batch == 1 ? 0 : b) * additive_heads + (additive_heads == 1 ? 0 : h)) * additive_queries +
            (additive_queries == 1 ? 0 : i);
        return additive[row * key_len + j];
    }

    /// What the head's sink adds to Σ exp(score − max).
    T sink_weight(std::size_t h, T max) const { return sinks.empty() ? T{0} : std::exp(sinks[h] - max); }
};

template <std::floating_point T>
Mask<T> mask_of(const graph::AttentionMask& mask, const Operands<T>& operands) {
    Mask<T> result{.causal = mask.causal,
                   .window = mask.window,
                   .key_lengths = operands.ints(mask.key_lengths),
                   .starts = operands.ints(mask.starts),
                   .additive = operands.floats(mask.additive),
                   .sinks = operands.floats(mask.sinks)};
    if (mask.additive) {
        result.additive_batch = operands.dim(mask.additive, 0);
        result.additive_heads = operands.dim(mask.additive, 1);
        result.additive_queries = operands.dim(mask.additive, 2);
    }
    return result;
}

}  // namespace vkformer::cpu
