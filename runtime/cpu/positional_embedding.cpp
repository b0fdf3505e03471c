// SPDX-License-Identifier: MIT
#include "cpu/positional_embedding.hpp"

#include "cpu/twins.hpp"

namespace vkformer::cpu {

template <std::floating_point T>
void execute(const graph::PositionalEmbedding& op, const Operands<T>& operands) {
    positional_embedding<T>(operands.floats(op.x), operands.floats(op.table), operands.ints(op.starts),
                            operands.dim(op.x, 1), operands.width(op.x), operands.floats(op.y));
}
template void execute(const graph::PositionalEmbedding&, const Operands<float>&);
template void execute(const graph::PositionalEmbedding&, const Operands<double>&);

ErrorRule error_rule(const graph::PositionalEmbedding&, const graph::Graph&) { return {2}; }

}  // namespace vkformer::cpu
