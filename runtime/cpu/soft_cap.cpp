// SPDX-License-Identifier: MIT
#include "cpu/soft_cap.hpp"

#include "cpu/twins.hpp"

namespace vkformer::cpu {

template <std::floating_point T>
void execute(const graph::SoftCap& op, const Operands<T>& operands) {
    const std::span<const T> x = operands.floats(op.x);
    const std::span<T> y = operands.floats(op.y);
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = soft_capped(x[i], static_cast<T>(op.cap));
}
template void execute(const graph::SoftCap&, const Operands<float>&);
template void execute(const graph::SoftCap&, const Operands<double>&);

ErrorRule error_rule(const graph::SoftCap&, const graph::Graph&) { return {32}; }

}  // namespace vkformer::cpu
