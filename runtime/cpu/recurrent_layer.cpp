// SPDX-License-Identifier: MIT
#include <algorithm>
#include <vector>

#include "cpu/blas.hpp"
#include "cpu/recurrent_cell.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {

// For each direction, sequence and step: the state's product with the weight, then the unit's formulas (recurrent_cell.hpp). A
// forward direction does the steps 0 … length − 1, a backward one length − 1 … 0; y is 0 at the others. hidden and cell:
// [batch, directions · hidden_dim], what each direction ends with; `cell` of a GRU is absent.
template <std::floating_point T>
void execute(const graph::RecurrentLayer& op, const Operands<T>& operands) {
    const std::size_t batch = operands.dim(op.gates, 0), len = operands.dim(op.gates, 1);
    const std::size_t directions = directions_of(op.direction), state_width = operands.width(op.hidden);
    const std::size_t n = state_width / directions, width = gates_of(op.unit) * n;
    const bool is_lstm = op.unit == graph::RecurrentUnit::lstm;
    const std::span<const T> all_gates = operands.floats(op.gates), weight = operands.floats(op.weight);
    const std::span<const T> bias = operands.floats(op.bias);
    const std::span<const std::int32_t> lengths = operands.ints(op.lengths);
    const std::span<T> y = operands.floats(op.y), hidden = operands.floats(op.hidden), cell = operands.floats(op.cell);
    const auto start = [&](graph::Value initial, std::span<T> state) {
        std::ranges::fill(state, T{0});
        std::ranges::copy(operands.floats(initial), state.begin());
    };
    start(op.initial_hidden, hidden);
    if (is_lstm) start(op.initial_cell, cell);
    std::ranges::fill(y, T{0});

    std::vector<T> products(batch * width);
    for (std::size_t d = 0; d < directions; ++d) {
        const bool is_backward = op.direction == graph::Direction::backward || d == 1;
        for (std::size_t step = 0; step < len; ++step) {
            for (std::size_t b = 0; b < batch; ++b)
                for (std::size_t k = 0; k < width; ++k)
                    products[b * width + k] = bias.empty() ? 0 : bias[d * width + k];
            add_product(batch, width, n, {&hidden[d * n], state_width}, {&weight[d * n * width], width},
                        {products.data(), width});
            for (std::size_t b = 0; b < batch; ++b) {
                const auto most = static_cast<std::int64_t>(len);
                const std::int64_t length = lengths.empty() ? most : std::clamp<std::int64_t>(lengths[b], 0, most);
                if (static_cast<std::int64_t>(step) >= length) continue;
                const std::size_t t = is_backward ? static_cast<std::size_t>(length) - 1 - step : step;
                const T* gates = &all_gates[(b * len + t) * directions * width + d * width];
                for (std::size_t k = 0; k < n; ++k) {
                    const std::size_t at = b * state_width + d * n + k;
                    if (is_lstm)
                        lstm_unit(gates + k, &products[b * width + k], n, hidden[at], cell[at]);
                    else
                        gru_unit(gates + k, &products[b * width + k], n, hidden[at]);
                    y[(b * len + t) * state_width + d * n + k] = hidden[at];
                }
            }
        }
    }
}
template void execute(const graph::RecurrentLayer&, const Operands<float>&);
template void execute(const graph::RecurrentLayer&, const Operands<double>&);

// Gates saturate, so that an error of a state does not grow from step to step by more than the product with W does: it
// adds up like the rounding of as many sums as there are steps.
ErrorRule error_rule(const graph::RecurrentLayer& op, const graph::Graph& graph) {
    const std::uint64_t steps = graph.shape(op.gates)[1],
                        hidden_dim = graph.shape(op.weight).back() / gates_of(op.unit);
    return {64, 16, steps * hidden_dim};
}

}  // namespace vkformer::cpu
