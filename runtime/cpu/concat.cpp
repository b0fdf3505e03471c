// SPDX-License-Identifier: MIT
#include <algorithm>

#include "cpu/twins.hpp"

namespace vkformer::cpu {

// y[row, :] = [a[row, :] | b[row, :]]
template <std::floating_point T>
void execute(const graph::Concat& op, const Operands<T>& operands) {
    for (std::size_t row = 0; row < operands.rows(op.y); ++row) {
        const auto rest = std::ranges::copy(operands.floats(op.a, row), operands.floats(op.y, row).begin()).out;
        std::ranges::copy(operands.floats(op.b, row), rest);
    }
}
template void execute(const graph::Concat&, const Operands<float>&);
template void execute(const graph::Concat&, const Operands<double>&);

ErrorRule error_rule(const graph::Concat&, const graph::Graph&) { return kExact; }

}  // namespace vkformer::cpu
