// SPDX-License-Identifier: MIT
/// What the recursions over a matrix of each head have in common: graph::gated_delta_rule, graph::selective_scan.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include "cpu/attention.hpp"
#include "cpu/state_place.hpp"

namespace vkformer::cpu {

/// log(1 + eˣ), which keeps its digits on both sides
template <std::floating_point T>
T softplus(T x) {
    return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
}

/// Goes over the tokens that are a sequence's, one after the other, for each head of each sequence by itself:
/// step(row, head, matrix, scratch, y) with the token's row among all, the head's matrix of op.state [slots, heads, rows, columns], as the
/// token before left it, `scratch_size` elements and the token's y [columns]. y of the other tokens becomes zeros. `walks`: how often a step
/// reads its matrix.
template <std::floating_point T>
void over_head_states(const auto& op, const Operands<T>& operands, std::size_t walks, std::size_t scratch_size,
                      const auto& step) {
    const std::size_t batch = operands.dim(op.y, 0), len = operands.dim(op.y, 1), heads = operands.dim(op.state, 1),
                      columns = operands.dim(op.state, 3), size = operands.dim(op.state, 2) * columns;
    const auto run_heads = [&](std::size_t first, std::size_t last, std::size_t) {
        std::vector<T> unkept(size), scratch(scratch_size);
        for (std::size_t item = first; item < last; ++item) {
            const std::size_t sequence = item / heads, head = item % heads;
            const OwnTokens own = own_tokens(op, operands, sequence, len);
            const auto matrix_in = [&](std::size_t slot) {
                return operands.floats(op.state).subspan((slot * heads + head) * size, size);
            };
            const std::span<T> matrix = own.count > 0 ? state_of<T>(own, matrix_in, unkept) : std::span<T>();
            for (std::size_t t = 0; t < len; ++t) {
                const std::size_t row = sequence * len + t;
                const std::span<T> y = operands.floats(op.y).subspan((row * heads + head) * columns, columns);
                if (t < own.count)
                    step(row, head, matrix, std::span<T>(scratch), y);
                else
                    std::ranges::fill(y, T{0});
            }
        }
    };
    over_threads<T>(batch * heads, len * walks * size, run_heads);
}

}  // namespace vkformer::cpu
