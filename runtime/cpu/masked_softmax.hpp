// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>

#include "cpu/attention_mask.hpp"
#include "cpu/softmax.hpp"

namespace vkformer::cpu {

// weights[b, h, i, :] = softmax over the seen keys of (scores + additive)[b, h, i, :], 0 for the others; zeros where none is
// seen. scores, weights: [batch, heads, query_len, key_len]; only those of `dims` are used. Vaswani et al. 2017, eq. 1.
template <std::floating_point T>
void masked_softmax(std::span<const T> scores, const Mask<T>& mask, const AttentionDims& dims, std::span<T> weights) {
    std::ranges::fill(weights, T{0});
    for (std::size_t b = 0; b < dims.batch; ++b)
        for (std::size_t h = 0; h < dims.heads; ++h)
            for (std::size_t i = 0; i < dims.query_len; ++i) {
                const std::size_t base = ((b * dims.heads + h) * dims.query_len + i) * dims.key_len;
                const auto [first, last] = mask.seen_keys(b, i, dims.key_len);
                const std::span<T> row = weights.subspan(base + first, last - first);
                for (std::size_t j = first; j < last; ++j)
                    row[j - first] = scores[base + j] + mask.addend(b, h, i, j, dims.key_len);
                const T sum = exponentiate(row).sum;
                if (sum == 0) continue;  // no key is seen; a NaN goes on
                for (T& weight : row) weight /= sum;
            }
}

}  // namespace vkformer::cpu
