// SPDX-License-Identifier: MIT
#include "cpu/rms_norm.hpp"

#include "cpu/twins.hpp"
#include "cpu/with_residual.hpp"

namespace vkformer::cpu {

template <std::floating_point T>
void execute(const graph::RmsNorm& op, const Operands<T>& operands) {
    std::vector<T> own_sum;
    rms_norm_rows<T>(with_residual(op, operands, own_sum), operands.width(op.x), operands.floats(op.gain),
                     static_cast<T>(op.gain_offset), static_cast<T>(op.eps), operands.floats(op.y));
}
template void execute(const graph::RmsNorm&, const Operands<float>&);
template void execute(const graph::RmsNorm&, const Operands<double>&);

// float16: as LayerNorm
ErrorRule error_rule(const graph::RmsNorm& op, const graph::Graph& graph) {
    return {16, 8, graph.shape(op.x).back(), 3};
}

}  // namespace vkformer::cpu
