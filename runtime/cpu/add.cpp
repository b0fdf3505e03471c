// SPDX-License-Identifier: MIT
#include "cpu/add.hpp"

#include "cpu/twins.hpp"

namespace vkformer::cpu {

template <std::floating_point T>
void execute(const graph::Add& op, const Operands<T>& operands) {
    add<T>(operands.floats(op.a), operands.floats(op.b), operands.floats(op.y));
}
template void execute(const graph::Add&, const Operands<float>&);
template void execute(const graph::Add&, const Operands<double>&);

ErrorRule error_rule(const graph::Add&, const graph::Graph&) { return {2}; }

}  // namespace vkformer::cpu
