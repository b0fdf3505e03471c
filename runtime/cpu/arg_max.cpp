// SPDX-License-Identifier: MIT
#include "cpu/arg_max.hpp"

#include "cpu/rows.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {

template <std::floating_point T>
void execute(const graph::ArgMax& op, const Operands<T>& operands) {
    const std::span<std::int32_t> y = operands.ints(op.y);
    for_rows(operands.rows(op.x), operands.width(op.x),
             [&](std::size_t row) { y[row] = arg_max<T>(operands.floats(op.x, row)); });
}
template void execute(const graph::ArgMax&, const Operands<float>&);
template void execute(const graph::ArgMax&, const Operands<double>&);

ErrorRule error_rule(const graph::ArgMax&, const graph::Graph&) { return kExact; }

}  // namespace vkformer::cpu
