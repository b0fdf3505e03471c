// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "cpu/add.hpp"
#include "cpu/operands.hpp"

namespace vkformer::cpu {

/// What a norm with a residual normalises: x + residual in `sum` or, where nobody else reads the sum, in `own_sum`.
template <std::floating_point T>
std::span<const T> with_residual(const auto& op, const Operands<T>& operands, std::vector<T>& own_sum) {
    const std::span<const T> x = operands.floats(op.x);
    if (!op.residual) return x;
    if (!op.sum) own_sum.resize(x.size());
    const std::span<T> sum = op.sum ? operands.floats(op.sum) : std::span<T>(own_sum);
    add<T>(x, operands.floats(op.residual), sum);
    return sum;
}

}  // namespace vkformer::cpu
