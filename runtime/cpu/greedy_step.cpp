// SPDX-License-Identifier: MIT
#include "cpu/greedy_step.hpp"

#include "cpu/twins.hpp"

namespace vkformer::cpu {

template <std::floating_point T>
void execute(const graph::GreedyStep& op, const Operands<T>& operands) {
    greedy_step<T>({.next = operands.ints(op.next),
                    .tokens = operands.ints(op.tokens),
                    .starts = operands.ints(op.starts),
                    .finished = operands.ints(op.finished),
                    .history = operands.ints(op.history)},
                   op.eos, op.pad,
                   {.given = operands.ints(op.given),
                    .log_probs = operands.floats(op.log_probs),
                    .scores = operands.floats(op.scores)});
}
template void execute(const graph::GreedyStep&, const Operands<float>&);
template void execute(const graph::GreedyStep&, const Operands<double>&);

ErrorRule error_rule(const graph::GreedyStep&, const graph::Graph&) { return kExact; }

}  // namespace vkformer::cpu
