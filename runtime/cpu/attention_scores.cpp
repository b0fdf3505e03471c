// SPDX-License-Identifier: MIT
#include <algorithm>
#include <concepts>

#include "cpu/attention.hpp"
#include "cpu/blas.hpp"
#include "cpu/soft_cap.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {

// scores[b, h, i, j] = scale · Σ_d query[b, i, h, d] · key[b, j, kv_head(h), d], soft-capped     Vaswani et al. 2017, eq. 1.
// query: [batch, query_len, heads, head_dim], key: [batch, key_len, kv_heads, head_dim], scores: [batch, heads, query_len, key_len];
// kv_head(h) = h / (heads / kv_heads).
template <std::floating_point T>
void execute(const graph::AttentionScores& op, const Operands<T>& operands) {
    const std::size_t batch = operands.dim(op.query, 0), query_len = operands.dim(op.query, 1);
    const std::size_t heads = operands.dim(op.query, 2), head_dim = operands.dim(op.query, 3);
    const std::size_t key_len = operands.dim(op.key, 1), kv_heads = operands.dim(op.key, 2);
    const std::span<const T> query = operands.floats(op.query), key = operands.floats(op.key);
    const std::span<T> scores = operands.floats(op.scores);
    // Queries: in float as many as share what they read of the keys in a cache, for each thread; in double all of a head.
    const std::size_t block = std::same_as<T, float> ? std::min<std::size_t>(query_len, 32) : query_len;
    const std::size_t blocks = (query_len + block - 1) / block;
    const auto score = [&](std::size_t first, std::size_t last, std::size_t) {
        for (std::size_t n = first; n < last; ++n) {
            const std::size_t i = n % blocks * block, h = n / blocks % heads, b = n / blocks / heads;
            const std::size_t rows = std::min(block, query_len - i);
            const std::span<T> part = scores.subspan(((b * heads + h) * query_len + i) * key_len, rows * key_len);
            std::ranges::fill(part, T{0});
            const SmallProduct<T> queries(rows, head_dim, static_cast<T>(op.scale),
                                          {&query[((b * query_len + i) * heads + h) * head_dim], heads * head_dim});
            queries.add(key_len,
                        {&key[(b * key_len * kv_heads + h / (heads / kv_heads)) * head_dim], kv_heads * head_dim},
                        {part.data(), key_len});
            if (op.soft_cap == 0) continue;
            for (T& capped : part) capped = soft_capped(capped, static_cast<T>(op.soft_cap));
        }
    };
    over_threads<T>(batch * heads * blocks, block * key_len * head_dim, score);
}
template void execute(const graph::AttentionScores&, const Operands<float>&);
template void execute(const graph::AttentionScores&, const Operands<double>&);

ErrorRule error_rule(const graph::AttentionScores& op, const graph::Graph& graph) {
    return {op.soft_cap == 0 ? 8.0 : 40.0, 8, graph.shape(op.query).back()};
}

}  // namespace vkformer::cpu
