// SPDX-License-Identifier: MIT
#include "cpu/rope.hpp"

#include "cpu/rows.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {

// y[b, i, h, :] = x[b, i, h, :] turned by the angles of position starts[b] + i; NaN where that is outside the table.
// x, y: [batch, len, heads, head_dim], table: [positions, rotary_dim]; `starts` may be absent: 0. Su et al. 2021, eq. 34.
template <std::floating_point T>
void execute(const graph::Rope& op, const Operands<T>& operands) {
    const std::size_t len = operands.dim(op.x, 1), heads = operands.dim(op.x, 2);
    const auto positions = static_cast<std::int64_t>(operands.dim(op.table, 0));
    const std::size_t head_dim = operands.width(op.x), rotary_dim = operands.width(op.table);
    const std::span<const std::int32_t> starts = operands.ints(op.starts);
    const std::span<const T> x = operands.floats(op.x), table = operands.floats(op.table);
    const std::span<T> all_y = operands.floats(op.y);
    const std::size_t tokens = operands.dim(op.x, 0) * len;
    for (std::size_t token = 0; token < tokens; ++token) {
        const std::int64_t start = starts.empty() ? 0 : starts[token / len];
        const std::int64_t position = start + static_cast<std::int64_t>(token % len);
        const bool is_known = position >= 0 && position < positions;
        for (std::size_t n = token * heads; n < (token + 1) * heads; ++n) {
            const std::span<T> y = row_of(all_y, n, head_dim);
            if (is_known)
                rope_head<T>(row_of(x, n, head_dim), row_of(table, static_cast<std::size_t>(position), rotary_dim),
                             op.pairing, y);
            else
                std::ranges::fill(y, std::numeric_limits<T>::quiet_NaN());
        }
    }
}
template void execute(const graph::Rope&, const Operands<float>&);
template void execute(const graph::Rope&, const Operands<double>&);

// a turn: two products and their sum
ErrorRule error_rule(const graph::Rope&, const graph::Graph&) { return {4}; }

}  // namespace vkformer::cpu
