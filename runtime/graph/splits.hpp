// SPDX-License-Identifier: MIT
/// How decode_attention shares out the keys that its query sees: evenly, whatever the cache could hold, so that a long cache costs no
/// more than what is in it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace vkformer::graph {

/// With 8 key heads they are 256 workgroups; more would only be more sums to combine.
inline constexpr std::uint64_t kMaxSplits = 32;
/// A split that has keys has this many at least: on lavapipe, reading the query and storing the sums take as long as 8 keys.
inline constexpr std::uint64_t kLeastSplitKeys = 32;

/// As many as give `split_keys` keys each where the cache is full.
constexpr std::uint64_t split_count(std::uint64_t key_len, std::uint64_t split_keys) noexcept {
    return std::min((key_len + split_keys - 1) / split_keys, kMaxSplits);
}

/// The splits that DecodeAttention::partial has room for, by the width of its rows.
constexpr std::uint64_t splits_in(std::uint64_t partial_width, std::uint64_t value_dim) noexcept {
    return (partial_width - 1) / (value_dim + 2);
}

/// Keys per split that has any, where the query sees `seen`; the last may have fewer.
constexpr std::uint64_t keys_per_split(std::uint64_t seen, std::uint64_t splits) noexcept {
    return std::max(kLeastSplitKeys, (seen + splits - 1) / splits);
}

}  // namespace vkformer::graph
