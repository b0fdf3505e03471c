// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>

#include "cpu/attention_mask.hpp"
#include "cpu/blas.hpp"
#include "cpu/soft_cap.hpp"

namespace vkformer::cpu {

// scores[b, h, i, j] = scale · Σ_d query[b, i, h, d] · key[b, j, kv_head(h), d], soft-capped     Vaswani et al. 2017, eq. 1.
// scores: [batch, heads, query_len, key_len]; dims.value_dim is not used.
template <std::floating_point T>
void attention_scores(std::span<const T> query, std::span<const T> key, T scale, T soft_cap, const AttentionDims& dims,
                      std::span<T> scores) {
    std::ranges::fill(scores, T{0});
    for (std::size_t b = 0; b < dims.batch; ++b)
        for (std::size_t h = 0; h < dims.heads; ++h)
            add_product_transposed(
                dims.query_len, dims.key_len, dims.head_dim, scale,
                {&query[(b * dims.query_len * dims.heads + h) * dims.head_dim], dims.heads * dims.head_dim},
                {&key[(b * dims.key_len * dims.kv_heads + dims.kv_head(h)) * dims.head_dim],
                 dims.kv_heads * dims.head_dim},
                {&scores[(b * dims.heads + h) * dims.query_len * dims.key_len], dims.key_len});
    if (soft_cap == 0) return;
    for (T& score : scores) score = soft_capped(score, soft_cap);
}

}  // namespace vkformer::cpu
