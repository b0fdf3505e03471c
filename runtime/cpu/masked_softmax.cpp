// SPDX-License-Identifier: MIT
#include <algorithm>

#include "cpu/attention_mask.hpp"
#include "cpu/softmax.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {

// weights[b, h, i, :] = softmax over the seen keys, and the head's sink, of (scores + additive)[b, h, i, :], 0 for the others; zeros where
// none is seen. scores, weights: [batch, heads, query_len, key_len]. Vaswani et al. 2017, eq. 1.
template <std::floating_point T>
void execute(const graph::MaskedSoftmax& op, const Operands<T>& operands) {
    const std::size_t heads = operands.dim(op.scores, 1), query_len = operands.dim(op.scores, 2);
    const std::size_t key_len = operands.width(op.scores);
    const Mask<T> mask = mask_of(op.mask, operands);
    std::ranges::fill(operands.floats(op.weights), T{0});
    for (std::size_t n = 0; n < operands.rows(op.scores); ++n) {
        const std::size_t i = n % query_len, h = n / query_len % heads, b = n / query_len / heads;
        const std::span<const T> scores = operands.floats(op.scores, n);
        const auto [first, last] = mask.seen_keys(b, i, key_len);
        const std::span<T> seen = operands.floats(op.weights, n).subspan(first, last - first);
        for (std::size_t j = first; j < last; ++j) seen[j - first] = scores[j] + mask.addend(b, h, i, j, key_len);
        const auto [max, sum] = exponentiate(seen);
        if (sum == 0) continue;  // no key is seen; a NaN goes on
        const T total = sum + mask.sink_weight(h, max);
        for (T& weight : seen) weight /= total;
    }
}
template void execute(const graph::MaskedSoftmax&, const Operands<float>&);
template void execute(const graph::MaskedSoftmax&, const Operands<double>&);

ErrorRule error_rule(const graph::MaskedSoftmax& op, const graph::Graph& graph) {
    return {kExpUnits, 4, graph.shape(op.scores).back()};
}

}  // namespace vkformer::cpu
