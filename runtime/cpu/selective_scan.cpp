// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <concepts>

#include "cpu/float_kernels.hpp"
#include "cpu/head_states.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {
namespace {

/// Of a head and a token. rate and step: exp(−rate · step) of the state is left, step · B xᵀ is added.
template <std::floating_point T>
struct ScanInputs {
    std::span<const T> x, b, c;
    T rate, step, skip;
};

/// S ← exp(−rate Δ) S + Δ B xᵀ,  y = Sᵀ C + skip x
template <std::floating_point T>
void scan_step(const ScanInputs<T>& token, std::span<T> state, std::span<T> y) {
    const std::size_t head_dim = y.size();
    const T kept = std::exp(-token.rate * token.step);
    if constexpr (std::same_as<T, float>) {
        float_kernels().add_to_state({.query = token.c.data(),
                                      .key = token.b.data(),
                                      .value = token.x.data(),
                                      .key_dim = token.b.size(),
                                      .value_dim = head_dim,
                                      .alpha = kept,
                                      .beta = token.step,
                                      .product = 0,
                                      .state = state.data(),
                                      .y = y.data()});
    } else {
        std::ranges::fill(y, T{0});
        for (std::size_t i = 0; i < token.b.size(); ++i)
            for (std::size_t j = 0; j < head_dim; ++j) {
                T& s = state[i * head_dim + j];
                s = kept * s + token.step * token.b[i] * token.x[j];
                y[j] += s * token.c[i];
            }
    }
    for (std::size_t j = 0; j < head_dim; ++j) y[j] += token.skip * token.x[j];
}

}  // namespace

template <std::floating_point T>
void execute(const graph::SelectiveScan& op, const Operands<T>& operands) {
    const std::size_t heads = operands.dim(op.state, 1), state_dim = operands.dim(op.state, 2),
                      head_dim = operands.dim(op.state, 3);
    const std::size_t of_b = heads * head_dim, of_c = of_b + op.groups * state_dim;  // in a row of xbc
    const std::span<const T> rates = operands.floats(op.rates);
    const auto step = [&](std::size_t row, std::size_t h, std::span<T> state, std::span<T>, std::span<T> y) {
        const std::size_t group = h / (heads / op.groups);
        const std::span<const T> xbc = operands.floats(op.xbc, row);
        const T delta = softplus<T>(operands.floats(op.steps, row)[h] + rates[heads + h]);
        scan_step<T>({.x = xbc.subspan(h * head_dim, head_dim),
                      .b = xbc.subspan(of_b + group * state_dim, state_dim),
                      .c = xbc.subspan(of_c + group * state_dim, state_dim),
                      .rate = std::exp(rates[h]),
                      .step = std::clamp(delta, T{op.least_step}, T{op.most_step}),
                      .skip = rates[2 * heads + h]},
                     state, y);
    };
    over_head_states<T>(op, operands, 3, 0, step);
}
template void execute(const graph::SelectiveScan&, const Operands<float>&);
template void execute(const graph::SelectiveScan&, const Operands<double>&);

// Three exponentials in a chain; the state decays, so that its errors add up like the rounding of a sum over tokens and rows.
ErrorRule error_rule(const graph::SelectiveScan& op, const graph::Graph& graph) {
    return {3 * kExpUnits, 16, graph.shape(op.steps)[1] * graph.shape(op.state)[2]};
}

}  // namespace vkformer::cpu
