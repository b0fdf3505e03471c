// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>

#include "cpu/attention_mask.hpp"
#include "cpu/blas.hpp"

namespace vkformer::cpu {

// y[b, i, h, v] = Σ_j weights[b, h, i, j] · value[b, j, kv_head(h), v]     Vaswani et al. 2017, eq. 1.
// weights: [batch, heads, query_len, key_len], y: [batch, query_len, heads, value_dim]; dims.head_dim is not used.
template <std::floating_point T>
void weighted_sum(std::span<const T> weights, std::span<const T> value, const AttentionDims& dims, std::span<T> y) {
    std::ranges::fill(y, T{0});
    for (std::size_t b = 0; b < dims.batch; ++b)
        for (std::size_t h = 0; h < dims.heads; ++h)
            add_product(dims.query_len, dims.value_dim, dims.key_len,
                        {&weights[(b * dims.heads + h) * dims.query_len * dims.key_len], dims.key_len},
                        {&value[(b * dims.key_len * dims.kv_heads + dims.kv_head(h)) * dims.value_dim],
                         dims.kv_heads * dims.value_dim},
                        {&y[(b * dims.query_len * dims.heads + h) * dims.value_dim], dims.heads * dims.value_dim});
}

}  // namespace vkformer::cpu
