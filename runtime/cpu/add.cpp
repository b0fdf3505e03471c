// SPDX-License-Identifier: MIT
#include "cpu/add.hpp"

#include "cpu/twins.hpp"

namespace vkformer::cpu {

template <std::floating_point T>
void execute(const graph::Add& op, const Operands<T>& operands) {
    const std::span<T> y = operands.floats(op.y);
    add<T>(operands.floats(op.a), operands.floats(op.b), y);
    if (op.scale == 1) return;
    for (T& value : y) value *= static_cast<T>(op.scale);
}
template void execute(const graph::Add&, const Operands<float>&);
template void execute(const graph::Add&, const Operands<double>&);

ErrorRule error_rule(const graph::Add&, const graph::Graph&) { return {3}; }

}  // namespace vkformer::cpu
