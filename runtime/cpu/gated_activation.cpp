// SPDX-License-Identifier: MIT
#include "cpu/gated_activation.hpp"

#include "cpu/rows.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {

template <std::floating_point T>
void execute(const graph::GatedActivation& op, const Operands<T>& operands) {
    for_rows(operands.rows(op.y), operands.width(op.y), [&](std::size_t row) {
        const std::span<const T> gate = operands.floats(op.gate, row);
        const std::span<T> y = operands.floats(op.y, row);
        if (op.up)
            gated_activation<T>(gate, operands.floats(op.up, row), op.activation, y, op.clamp);
        else
            gated_halves<T>(gate, op.activation, y, op.clamp);
    });
}
template void execute(const graph::GatedActivation&, const Operands<float>&);
template void execute(const graph::GatedActivation&, const Operands<double>&);

// an activation and a product
ErrorRule error_rule(const graph::GatedActivation&, const graph::Graph&) { return {34}; }

}  // namespace vkformer::cpu
