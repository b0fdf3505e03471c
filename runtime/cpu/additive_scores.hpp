// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>

#include "cpu/attention_mask.hpp"

namespace vkformer::cpu {

// scores[b, h, i, j] = Σ_d weight[h, d] · tanh(query[b, i, h, d] + key[b, j, h, d])     Bahdanau et al. 2015, appendix A.1.2.
// scores: [batch, heads, query_len, key_len]; of `dims`, kv_heads and value_dim are not used.
template <std::floating_point T>
void additive_scores(std::span<const T> query, std::span<const T> key, std::span<const T> weight,
                     const AttentionDims& dims, std::span<T> scores) {
    const std::size_t dim = dims.head_dim;
    for (std::size_t b = 0; b < dims.batch; ++b)
        for (std::size_t h = 0; h < dims.heads; ++h)
            for (std::size_t i = 0; i < dims.query_len; ++i)
                for (std::size_t j = 0; j < dims.key_len; ++j) {
                    const std::span<const T> q = query.subspan(((b * dims.query_len + i) * dims.heads + h) * dim, dim);
                    const std::span<const T> k = key.subspan(((b * dims.key_len + j) * dims.heads + h) * dim, dim);
                    T sum = 0;
                    for (std::size_t d = 0; d < dim; ++d) sum += weight[h * dim + d] * std::tanh(q[d] + k[d]);
                    scores[((b * dims.heads + h) * dims.query_len + i) * dims.key_len + j] = sum;
                }
}

}  // namespace vkformer::cpu
