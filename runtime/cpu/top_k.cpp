// SPDX-License-Identifier: MIT
#include "cpu/top_k.hpp"

#include "cpu/rows.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {

template <std::floating_point T>
void execute(const graph::TopK& op, const Operands<T>& operands) {
    for_rows(operands.rows(op.x), operands.width(op.x), [&](std::size_t row) {
        top_k<T>(operands.floats(op.x, row), operands.floats(op.values, row), operands.ints(op.indices, row));
    });
}
template void execute(const graph::TopK&, const Operands<float>&);
template void execute(const graph::TopK&, const Operands<double>&);

ErrorRule error_rule(const graph::TopK&, const graph::Graph&) { return kExact; }

}  // namespace vkformer::cpu
