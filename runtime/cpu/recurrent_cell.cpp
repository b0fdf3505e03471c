// SPDX-License-Identifier: MIT
#include "cpu/recurrent_cell.hpp"

#include "cpu/twins.hpp"

namespace vkformer::cpu {

// One step of [rows, hidden_dim] units from gates [rows, gates · hidden_dim]; the cells are present for an LSTM only. The next states may
// be the old ones.
template <std::floating_point T>
void execute(const graph::RecurrentCell& op, const Operands<T>& operands) {
    const std::size_t hidden_dim = operands.width(op.hidden), width = gates_of(op.unit) * hidden_dim;
    const std::span<const T> input_gates = operands.floats(op.input_gates);
    const std::span<const T> hidden_gates = operands.floats(op.hidden_gates);
    const std::span<const T> hidden = operands.floats(op.hidden), cell = operands.floats(op.cell);
    const std::span<T> next_hidden = operands.floats(op.next_hidden), next_cell = operands.floats(op.next_cell);
    for (std::size_t row = 0; row < operands.rows(op.hidden); ++row)
        for (std::size_t k = 0; k < hidden_dim; ++k) {
            const T* x = &input_gates[row * width + k];
            const T* h = &hidden_gates[row * width + k];
            const std::size_t at = row * hidden_dim + k;
            next_hidden[at] = hidden[at];
            if (op.unit == graph::RecurrentUnit::lstm) {
                next_cell[at] = cell[at];
                lstm_unit(x, h, hidden_dim, next_hidden[at], next_cell[at]);
            } else {
                gru_unit(x, h, hidden_dim, next_hidden[at]);
            }
        }
}
template void execute(const graph::RecurrentCell&, const Operands<float>&);
template void execute(const graph::RecurrentCell&, const Operands<double>&);

// five sigmoids and tanhs of sums of two or three terms, each good to some units of 1
ErrorRule error_rule(const graph::RecurrentCell&, const graph::Graph&) { return {64}; }

}  // namespace vkformer::cpu
