// SPDX-License-Identifier: MIT
#include <algorithm>

#include "cpu/blas.hpp"
#include "cpu/float_kernels.hpp"
#include "cpu/rows.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {
namespace {

// y += Σ_j weights[j] · value[j]     value: rows `stride` elements apart
void add_rows(std::span<const float> weights, const float* value, std::size_t stride, std::span<float> y) {
    float_kernels().add_scaled_rows(weights.data(), weights.size(), value, stride, y.size(), y.data());
}
void add_rows(std::span<const double> weights, const double* value, std::size_t stride, std::span<double> y) {
    for (std::size_t j = 0; j < weights.size(); ++j)
        for (std::size_t i = 0; i < y.size(); ++i) y[i] += weights[j] * value[j * stride + i];
}

}  // namespace

// y[b, i, h, v] = Σ_j weights[b, h, i, j] · value[b, j, kv_head(h), v]     Vaswani et al. 2017, eq. 1.
// weights: [batch, heads, query_len, key_len], value: [batch, key_len, kv_heads, value_dim], y: [batch, query_len, heads, value_dim];
// kv_head(h) = h / (heads / kv_heads).
template <std::floating_point T>
void execute(const graph::WeightedSum& op, const Operands<T>& operands) {
    const std::size_t batch = operands.dim(op.weights, 0), heads = operands.dim(op.weights, 1);
    const std::size_t query_len = operands.dim(op.weights, 2), key_len = operands.dim(op.weights, 3);
    const std::size_t kv_heads = operands.dim(op.value, 2), value_dim = operands.dim(op.value, 3);
    const std::span<const T> weights = operands.floats(op.weights), value = operands.floats(op.value);
    const std::span<T> y = operands.floats(op.y);
    std::ranges::fill(y, T{0});
    if (query_len == 1) {  // too little for a BLAS, and often many of them: a token and its experts
        for_rows(batch * heads, key_len * value_dim / 8 + 1, [&](std::size_t row) {
            const std::size_t b = row / heads, kv_head = row % heads / (heads / kv_heads);
            add_rows(row_of(weights, row, key_len), &value[(b * key_len * kv_heads + kv_head) * value_dim],
                     kv_heads * value_dim, row_of(y, row, value_dim));
        });
        return;
    }
    for (std::size_t b = 0; b < batch; ++b)
        for (std::size_t h = 0; h < heads; ++h)
            add_product(query_len, value_dim, key_len, {&weights[(b * heads + h) * query_len * key_len], key_len},
                        {&value[(b * key_len * kv_heads + h / (heads / kv_heads)) * value_dim], kv_heads * value_dim},
                        {&y[(b * query_len * heads + h) * value_dim], heads * value_dim});
}
template void execute(const graph::WeightedSum&, const Operands<float>&);
template void execute(const graph::WeightedSum&, const Operands<double>&);

ErrorRule error_rule(const graph::WeightedSum& op, const graph::Graph& graph) {
    return {8, 8, graph.shape(op.weights).back()};
}

}  // namespace vkformer::cpu
