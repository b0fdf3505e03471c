// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <span>

#include "cpu/attention.hpp"
#include "graph/splits.hpp"

namespace vkformer::cpu {

/// The seen keys are shared out evenly: graph/splits.hpp.
inline KeyRange keys_of_split(KeyRange seen, std::size_t split, std::size_t splits) {
    const std::size_t count = seen.last - seen.first, each = graph::keys_per_split(count, splits);
    const std::size_t used = (count + each - 1) / each;
    if (!graph::split_is_used(split, splits, used)) return {0, 0};
    const std::size_t first = seen.first + split * used / splits * each;
    return {first, std::min(first + each, seen.last)};
}

// partial[b, h, split, :]: over the seen keys j of the split, Σ exp(s_j − m) · value[j, :], then m = max s_j, then Σ exp(s_j − m);
// zeros and m = −∞ where the split has no seen key. partial: [batch, heads, splits, value_dim + 2], query_len = 1.
// Dao et al. 2023, "Flash-Decoding for long-context inference".
template <std::floating_point T>
void decode_attention(const AttentionOperands<T>& o, std::size_t splits, std::span<T> partial) {
    const AttentionDims& dims = o.dims;
    const std::size_t width = dims.value_dim + 2;
    std::ranges::fill(partial, T{0});
    const auto attend = [&](std::size_t first, std::size_t last, std::size_t) {
        for (std::size_t n = first; n < last; ++n) {
            const std::size_t split = n % splits, h = n / splits % dims.heads, b = n / splits / dims.heads;
            const KeyRange keys = keys_of_split(o.mask.seen_keys(b, 0, dims.key_len), split, splits);
            const std::span<T> row = partial.subspan(n * width, width);
            const SoftmaxTerms<T> terms = add_weighted_values(o, b, h, 0, keys, row.first(dims.value_dim));
            row[dims.value_dim] = terms.max;
            row[dims.value_dim + 1] = terms.sum;
        }
    };
    const std::size_t seen = o.mask.seen_keys(0, 0, dims.key_len).last;
    over_threads<T>(dims.batch * dims.heads * splits, seen * (dims.head_dim + dims.value_dim) / splits, attend);
}

// y[row, v] = Σ_split exp(m_split − m) · sums[split, v] / Σ_split exp(m_split − m) · sum[split], with m = max m_split; zeros
// where no split has a seen key. partial: [rows, splits, value_dim + 2], y: [rows, value_dim], rows = batch · heads.
template <std::floating_point T>
void attention_combine(std::span<const T> partial, std::size_t splits, std::size_t value_dim, std::span<T> y) {
    const std::size_t width = value_dim + 2;
    std::ranges::fill(y, T{0});
    for (std::size_t row = 0; row < y.size() / value_dim; ++row) {
        const std::span<const T> parts = partial.subspan(row * splits * width, splits * width);
        T max = -std::numeric_limits<T>::infinity();
        for (std::size_t split = 0; split < splits; ++split) max = std::max(max, parts[split * width + value_dim]);

        const std::span<T> values = y.subspan(row * value_dim, value_dim);
        T sum = 0;
        for (std::size_t split = 0; split < splits; ++split) {
            const std::span<const T> part = parts.subspan(split * width, width);
            if (part[value_dim + 1] == 0) continue;  // no seen key
            const T scale = std::exp(part[value_dim] - max);
            sum += scale * part[value_dim + 1];
            for (std::size_t v = 0; v < value_dim; ++v) values[v] += scale * part[v];
        }
        if (sum == 0) continue;
        for (T& value : values) value /= sum;
    }
}

}  // namespace vkformer::cpu
