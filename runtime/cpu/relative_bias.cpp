// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cassert>

#include "cpu/twins.hpp"

namespace vkformer::cpu {

// y[b, h, i, j] = table[h, clamp(j − (starts[b] + i), −reach, reach) + reach]     table: [heads, 2 · reach + 1],
// y: [batch, heads, query_len, key_len]. `starts` may be absent: 0. Raffel et al. 2020, section 2.1.
template <std::floating_point T>
void execute(const graph::RelativeBias& op, const Operands<T>& operands) {
    const Shape& shape = operands.shape(op.y);
    const std::span<const std::int32_t> starts = operands.ints(op.starts);
    assert(starts.empty() ? shape[0] == 1 : shape[0] == starts.size());
    const auto reach = static_cast<std::int64_t>(operands.width(op.table) / 2);
    auto out = operands.floats(op.y).begin();
    for (std::size_t b = 0; b < shape[0]; ++b)
        for (std::size_t h = 0; h < shape[1]; ++h)
            for (std::size_t i = 0; i < shape[2]; ++i) {
                const std::int64_t query =
                    (starts.empty() ? 0 : std::int64_t{starts[b]}) + static_cast<std::int64_t>(i);
                const std::span<const T> biases = operands.floats(op.table, h);
                for (std::size_t j = 0; j < shape[3]; ++j) {
                    const std::int64_t distance = std::clamp(static_cast<std::int64_t>(j) - query, -reach, reach);
                    *out++ = biases[static_cast<std::size_t>(distance + reach)];
                }
            }
}
template void execute(const graph::RelativeBias&, const Operands<float>&);
template void execute(const graph::RelativeBias&, const Operands<double>&);

ErrorRule error_rule(const graph::RelativeBias&, const graph::Graph&) { return {1}; }

}  // namespace vkformer::cpu
