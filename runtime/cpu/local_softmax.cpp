// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/rows.hpp"
#include "cpu/softmax.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {

// weights[b, h, i, :] = softmax of scores[b, h, i, :] over the keys with |p − j| ≤ half_width and j < length, 0 for the others;
// zeros where there is none. p = positions[b, i]; or p = relative[b, i] · length, and then each weight times
// exp(−(j − p)² / 2σ²), σ = half_width / 2. A NaN in p gives a row of NaN. Luong et al. 2015, eq. 9 and 10.
template <std::floating_point T>
void execute(const graph::LocalSoftmax& op, const Operands<T>& operands) {
    const std::size_t heads = operands.dim(op.scores, 1), query_len = operands.dim(op.scores, 2);
    const std::size_t key_len = operands.width(op.scores);
    const std::span<const std::int32_t> positions = operands.ints(op.window.positions);
    const std::span<const std::int32_t> key_lengths = operands.ints(op.window.key_lengths);
    const std::span<const T> relative = operands.floats(op.window.relative);
    const std::span<const T> all_scores = operands.floats(op.scores);
    const std::span<T> all_weights = operands.floats(op.weights);
    const T width = static_cast<T>(op.window.half_width), sigma = width / 2;
    std::ranges::fill(all_weights, T{0});
    for (std::size_t n = 0; n < operands.rows(op.scores); ++n) {
        const std::size_t b = n / query_len / heads, at = b * query_len + n % query_len;
        const std::span<T> weights = row_of(all_weights, n, key_len);
        const T most = static_cast<T>(key_len);
        const T length = key_lengths.empty() ? most : std::clamp(static_cast<T>(key_lengths[b]), T{0}, most);
        const T centre = relative.empty() ? static_cast<T>(positions[at]) : relative[at] * length;
        if (std::isnan(centre)) {
            std::ranges::fill(weights, std::numeric_limits<T>::quiet_NaN());
            continue;
        }
        const auto first = static_cast<std::size_t>(std::clamp(std::ceil(centre - width), T{0}, length));
        const auto behind = static_cast<std::size_t>(std::clamp(std::floor(centre + width) + 1, T{0}, length));
        const std::size_t end = std::min(behind, key_len);  // a long key_len may have been rounded up
        if (first >= end) continue;
        const std::span<T> row = weights.subspan(first, end - first);
        std::ranges::copy(row_of(all_scores, n, key_len).subspan(first, end - first), row.begin());
        const T sum = exponentiate(row).sum;
        if (sum == 0) continue;  // all scores are −∞; a NaN goes on
        for (std::size_t j = first; j < end; ++j) {
            const T distance = static_cast<T>(j) - centre;
            row[j - first] /= sum;
            if (!relative.empty()) row[j - first] *= std::exp(-distance * distance / (2 * sigma * sigma));
        }
    }
}
template void execute(const graph::LocalSoftmax&, const Operands<float>&);
template void execute(const graph::LocalSoftmax&, const Operands<double>&);

// the Gaussian's exponent, at most 2, moves by its slope at the edge, 4 / half_width, times the rounding of the centre
ErrorRule error_rule(const graph::LocalSoftmax& op, const graph::Graph& graph) {
    const std::uint64_t keys = graph.shape(op.scores).back();
    const double centre = op.window.relative ? 4 * static_cast<double>(keys) / op.window.half_width : 0;
    return {2 * kExpUnits + centre, 4, keys};
}

}  // namespace vkformer::cpu
