// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <concepts>
#include <vector>

#include "cpu/attention.hpp"
#include "cpu/float_kernels.hpp"
#include "cpu/state_place.hpp"
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

// Each head of each sequence by itself.
template <std::floating_point T>
void execute(const graph::SelectiveScan& op, const Operands<T>& operands) {
    const std::size_t batch = operands.dim(op.steps, 0), len = operands.dim(op.steps, 1);
    const std::size_t heads = operands.dim(op.state, 1), state_dim = operands.dim(op.state, 2),
                      head_dim = operands.dim(op.state, 3);
    const std::size_t of_b = heads * head_dim, of_c = of_b + op.groups * state_dim;  // in a row of xbc
    const std::span<const T> rates = operands.floats(op.rates);
    const auto run_heads = [&](std::size_t first, std::size_t last, std::size_t) {
        std::vector<T> scratch_state(state_dim * head_dim);
        for (std::size_t item = first; item < last; ++item) {
            const std::size_t b = item / heads, h = item % heads, group = h / (heads / op.groups);
            const OwnTokens own = own_tokens(op, operands, b, len);
            const auto matrix_in = [&](std::size_t row) {
                return operands.floats(op.state).subspan((row * heads + h) * scratch_state.size(),
                                                         scratch_state.size());
            };
            const std::span<T> state = own.count > 0 ? state_of<T>(own, matrix_in, scratch_state) : std::span<T>();
            for (std::size_t t = 0; t < len; ++t) {
                const std::size_t row = b * len + t;
                const std::span<T> y = operands.floats(op.y).subspan((row * heads + h) * head_dim, head_dim);
                if (t >= own.count) {
                    std::ranges::fill(y, T{0});
                    continue;
                }
                const std::span<const T> xbc = operands.floats(op.xbc, row);
                const T raw = operands.floats(op.steps, row)[h] + rates[heads + h];
                const T softplus = std::max(raw, T{0}) + std::log1p(std::exp(-std::abs(raw)));
                scan_step<T>({.x = xbc.subspan(h * head_dim, head_dim),
                              .b = xbc.subspan(of_b + group * state_dim, state_dim),
                              .c = xbc.subspan(of_c + group * state_dim, state_dim),
                              .rate = std::exp(rates[h]),
                              .step = std::clamp(softplus, T{op.least_step}, T{op.most_step}),
                              .skip = rates[2 * heads + h]},
                             state, y);
            }
        }
    };
    over_threads<T>(batch * heads, len * 3 * state_dim * head_dim, run_heads);
}
template void execute(const graph::SelectiveScan&, const Operands<float>&);
template void execute(const graph::SelectiveScan&, const Operands<double>&);

// Three exponentials in a chain; the state decays, so that its errors add up like the rounding of a sum over tokens and rows.
ErrorRule error_rule(const graph::SelectiveScan& op, const graph::Graph& graph) {
    return {3 * kExpUnits, 16, graph.shape(op.steps)[1] * graph.shape(op.state)[2]};
}

}  // namespace vkformer::cpu
