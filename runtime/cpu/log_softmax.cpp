// SPDX-License-Identifier: MIT
#include "cpu/log_softmax.hpp"

#include "cpu/rows.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {

template <std::floating_point T>
void execute(const graph::LogSoftmax& op, const Operands<T>& operands) {
    for_rows(operands.rows(op.x), operands.width(op.x),
             [&](std::size_t row) { log_softmax<T>(operands.floats(op.x, row), operands.floats(op.y, row)); });
}
template void execute(const graph::LogSoftmax&, const Operands<float>&);
template void execute(const graph::LogSoftmax&, const Operands<double>&);

ErrorRule error_rule(const graph::LogSoftmax& op, const graph::Graph& graph) {
    return {kExpUnits, 4, graph.shape(op.x).back()};
}

}  // namespace vkformer::cpu
