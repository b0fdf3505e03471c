// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include "cpu/attention_mask.hpp"
#include "cpu/blas.hpp"
#include "cpu/soft_cap.hpp"
#include "cpu/softmax.hpp"

namespace vkformer::cpu {

/// The operands of attention; layouts at AttentionDims.
template <std::floating_point T>
struct AttentionOperands {
    std::span<const T> query, key, value;
    Mask<T> mask;
    T scale, soft_cap;  // soft_cap 0: none
    AttentionDims dims;
};

/// One query of one head against the keys first … last − 1: sums[v] += Σ_j exp(s_j − m) · value[j, v], with the scores
/// s_j = scale · query · key_j, soft-capped, + additive_j. Keys outside the range are not even read.
template <std::floating_point T>
SoftmaxTerms<T> add_weighted_values(const AttentionOperands<T>& o, std::size_t b, std::size_t h, std::size_t i,
                                    KeyRange keys, std::span<T> sums) {
    const AttentionDims& dims = o.dims;
    const std::size_t count = keys.last - keys.first;
    const std::size_t kv_row = (b * dims.key_len + keys.first) * dims.kv_heads + dims.kv_head(h);
    std::vector<T> scores(count, T{0});
    if (count > 0)
        add_matrix_vector(count, dims.head_dim, o.scale,
                          {&o.key[kv_row * dims.head_dim], dims.kv_heads * dims.head_dim},
                          &o.query[((b * dims.query_len + i) * dims.heads + h) * dims.head_dim], scores.data());
    if (o.soft_cap != 0)
        for (T& score : scores) score = soft_capped(score, o.soft_cap);
    for (std::size_t j = 0; j < count; ++j) scores[j] += o.mask.addend(b, h, i, keys.first + j, dims.key_len);
    const SoftmaxTerms<T> terms = exponentiate(std::span(scores));
    if (terms.sum != 0)
        add_vector_matrix(count, dims.value_dim, scores.data(),
                          {&o.value[kv_row * dims.value_dim], dims.kv_heads * dims.value_dim}, sums.data());
    return terms;
}

// y[b, i, h, :] = Σ_j exp(s_j − m) · value[b, j, kv_head(h), :] / Σ_j exp(s_j − m), over the keys j that the query sees;
// zeros where it sees none. y: [batch, query_len, heads, value_dim]. Vaswani et al. 2017, eq. 1.
template <std::floating_point T>
void attention(const AttentionOperands<T>& o, std::span<T> y) {
    const AttentionDims& dims = o.dims;
    std::ranges::fill(y, T{0});
    for (std::size_t b = 0; b < dims.batch; ++b)
        for (std::size_t i = 0; i < dims.query_len; ++i)
            for (std::size_t h = 0; h < dims.heads; ++h) {
                const std::size_t row = (b * dims.query_len + i) * dims.heads + h;
                const std::span<T> sums = y.subspan(row * dims.value_dim, dims.value_dim);
                const KeyRange keys = o.mask.seen_keys(b, i, dims.key_len);
                const T sum = add_weighted_values(o, b, h, i, keys, sums).sum;
                if (sum == 0) continue;
                for (T& value : sums) value /= sum;
            }
}

}  // namespace vkformer::cpu
