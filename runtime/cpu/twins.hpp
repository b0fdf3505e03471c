// SPDX-License-Identifier: MIT
/// The twin of every op on the CPU, each in a file of the op's name: plain loops, written from the formula, and how far float32 arithmetic
/// may be from them.
#pragma once

#include "cpu/error_rule.hpp"
#include "cpu/operands.hpp"
#include "graph/ops.hpp"

namespace vkformer::cpu {

/// execute: computes what the op writes of what its operands hold, for float and for double. Throws std::bad_alloc.
/// error_rule: for every result of the op that is real numbers.
#define VKFORMER_TWIN(Op)                                           \
    template <std::floating_point T>                                \
    void execute(const graph::Op& op, const Operands<T>& operands); \
    ErrorRule error_rule(const graph::Op& op, const graph::Graph& graph);
VKFORMER_OPS(VKFORMER_TWIN)
#undef VKFORMER_TWIN

}  // namespace vkformer::cpu
