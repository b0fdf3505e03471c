// SPDX-License-Identifier: MIT
#include "cpu/activate.hpp"

#include "cpu/twins.hpp"

namespace vkformer::cpu {

template <std::floating_point T>
void execute(const graph::Activate& op, const Operands<T>& operands) {
    activate<T>(operands.floats(op.x), op.activation, operands.floats(op.y));
}
template void execute(const graph::Activate&, const Operands<float>&);
template void execute(const graph::Activate&, const Operands<double>&);

ErrorRule error_rule(const graph::Activate&, const graph::Graph&) { return {32}; }

}  // namespace vkformer::cpu
