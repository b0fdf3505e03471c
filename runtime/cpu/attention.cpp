// SPDX-License-Identifier: MIT
#include "cpu/attention.hpp"

#include "cpu/twins.hpp"

namespace vkformer::cpu {

template <std::floating_point T>
void execute(const graph::Attention& op, const Operands<T>& operands) {
    attention<T>(attention_operands(op, operands), operands.floats(op.y));
}
template void execute(const graph::Attention&, const Operands<float>&);
template void execute(const graph::Attention&, const Operands<double>&);

// an error of the scores is a relative error of the weights
ErrorRule error_rule(const graph::Attention& op, const graph::Graph& graph) {
    return {2 * kExpUnits, 16, std::max(graph.shape(op.query).back(), graph::capacity_of(graph, op.key, op.pages))};
}

}  // namespace vkformer::cpu
