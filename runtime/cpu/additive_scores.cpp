// SPDX-License-Identifier: MIT
#include <cmath>

#include "cpu/rows.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {

// scores[b, h, i, j] = Σ_d weight[h, d] · tanh(query[b, i, h, d] + key[b, j, h, d])     Bahdanau et al. 2015, appendix A.1.2.
// scores: [batch, heads, query_len, key_len].
template <std::floating_point T>
void execute(const graph::AdditiveScores& op, const Operands<T>& operands) {
    const std::size_t heads = operands.dim(op.query, 2), dim = operands.width(op.query);
    const std::size_t query_len = operands.dim(op.query, 1), key_len = operands.dim(op.key, 1);
    for (std::size_t n = 0; n < operands.rows(op.scores); ++n) {
        const std::size_t i = n % query_len, h = n / query_len % heads, b = n / query_len / heads;
        const std::span<const T> q = operands.floats(op.query, (b * query_len + i) * heads + h);
        const std::span<const T> weight = row_of(operands.floats(op.weight), h, dim);
        const std::span<T> scores = operands.floats(op.scores, n);
        for (std::size_t j = 0; j < key_len; ++j) {
            const std::span<const T> k = operands.floats(op.key, (b * key_len + j) * heads + h);
            T sum = 0;
            for (std::size_t d = 0; d < dim; ++d) sum += weight[d] * std::tanh(q[d] + k[d]);
            scores[j] = sum;
        }
    }
}
template void execute(const graph::AdditiveScores&, const Operands<float>&);
template void execute(const graph::AdditiveScores&, const Operands<double>&);

// every term has the rounding of its sum and the error of its tanh, a few units of 1
ErrorRule error_rule(const graph::AdditiveScores& op, const graph::Graph& graph) {
    return {32, 16, graph.shape(op.query).back()};
}

}  // namespace vkformer::cpu
