// SPDX-License-Identifier: MIT
#include <algorithm>

#include "cpu/parallel.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {

// y[b, h, i, j] = c2p[h, b · len + i, r] + p2c[h, b · len + j, r],  r = index[clamp(i − j, −reach, reach) + reach]
// c2p, p2c: [heads, batch · len, rows], either may be absent; index: [2 · reach + 1]; y: [batch, heads, len, len].
// He et al. 2021, section 3.1. A number of the index that is no row is taken as the nearest one.
template <std::floating_point T>
void execute(const graph::RelativeScores& op, const Operands<T>& operands) {
    const std::size_t batch = operands.dim(op.y, 0), heads = operands.dim(op.y, 1), len = operands.dim(op.y, 2);
    const std::size_t rows = operands.width(op.c2p ? op.c2p : op.p2c);
    const std::span<const std::int32_t> index = operands.ints(op.index);
    const std::span<const T> c2p = operands.floats(op.c2p), p2c = operands.floats(op.p2c);
    const auto reach = static_cast<std::ptrdiff_t>(index.size() / 2);
    const auto add_row = [&](std::size_t first, std::size_t last, std::size_t) {
        for (std::size_t n = first; n < last; ++n) {
            const std::size_t i = n % len, h = n / len % heads, b = n / len / heads;
            const std::size_t text = (h * batch + b) * len;
            const std::span<T> y = operands.floats(op.y, n);
            for (std::size_t j = 0; j < len; ++j) {
                const std::ptrdiff_t distance = static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(j);
                const std::int32_t found = index[static_cast<std::size_t>(std::clamp(distance, -reach, reach) + reach)];
                const auto r = static_cast<std::size_t>(std::clamp(found, 0, static_cast<std::int32_t>(rows) - 1));
                y[j] = (op.c2p ? c2p[(text + i) * rows + r] : T{0}) + (op.p2c ? p2c[(text + j) * rows + r] : T{0});
            }
        }
    };
    parallel_for(operands.rows(op.y), slice_of(operands.rows(op.y), 4 * len), add_row);
}
template void execute(const graph::RelativeScores&, const Operands<float>&);
template void execute(const graph::RelativeScores&, const Operands<double>&);

ErrorRule error_rule(const graph::RelativeScores&, const graph::Graph&) { return {2}; }

}  // namespace vkformer::cpu
