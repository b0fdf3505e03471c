// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu/blas.hpp"
#include "cpu/recurrent_cell.hpp"

namespace vkformer::cpu {

struct RecurrentDims {
    std::size_t batch, len, directions, hidden_dim;
};

/// Operands as graph::lstm_layer and gru_layer have them; bias, initial_hidden, initial_cell and lengths may be empty.
template <std::floating_point T>
struct RecurrentOperands {
    std::span<const T> gates, weight, bias, initial_hidden, initial_cell;
    std::span<const std::int32_t> lengths;
};

// For each direction, sequence and step: the state's product with the weight, then the unit's formulas (recurrent_cell.hpp). A
// forward direction does the steps 0 … length − 1, a backward one length − 1 … 0; y is 0 at the others. hidden and cell:
// [batch, directions · hidden_dim], what each direction ends with; `cell` of a GRU is empty.
template <std::floating_point T>
void recurrent_layer(const RecurrentOperands<T>& o, graph::RecurrentUnit unit, graph::Direction direction,
                     const RecurrentDims& dims, std::span<T> y, std::span<T> hidden, std::span<T> cell) {
    const std::size_t n = dims.hidden_dim, width = gates_of(unit) * n, state_width = dims.directions * n;
    const bool is_lstm = unit == graph::RecurrentUnit::lstm;
    const auto start = [](std::span<const T> initial, std::span<T> state) {
        std::ranges::fill(state, T{0});
        std::ranges::copy(initial, state.begin());
    };
    start(o.initial_hidden, hidden);
    if (is_lstm) start(o.initial_cell, cell);
    std::ranges::fill(y, T{0});

    std::vector<T> products(dims.batch * width);
    for (std::size_t d = 0; d < dims.directions; ++d) {
        const bool is_backward = direction == graph::Direction::backward || d == 1;
        for (std::size_t step = 0; step < dims.len; ++step) {
            for (std::size_t b = 0; b < dims.batch; ++b)
                for (std::size_t k = 0; k < width; ++k)
                    products[b * width + k] = o.bias.empty() ? 0 : o.bias[d * width + k];
            add_product(dims.batch, width, n, {&hidden[d * n], state_width}, {&o.weight[d * n * width], width},
                        {products.data(), width});
            for (std::size_t b = 0; b < dims.batch; ++b) {
                const std::int64_t length =
                    o.lengths.empty() ? static_cast<std::int64_t>(dims.len)
                                      : std::clamp<std::int64_t>(o.lengths[b], 0, static_cast<std::int64_t>(dims.len));
                if (static_cast<std::int64_t>(step) >= length) continue;
                const std::size_t t = is_backward ? static_cast<std::size_t>(length) - 1 - step : step;
                const T* gates = &o.gates[(b * dims.len + t) * dims.directions * width + d * width];
                for (std::size_t k = 0; k < n; ++k) {
                    const std::size_t at = b * state_width + d * n + k;
                    if (is_lstm) {
                        lstm_unit(gates + k, &products[b * width + k], n, hidden[at], cell[at]);
                    } else {
                        gru_unit(gates + k, &products[b * width + k], n, hidden[at]);
                    }
                    y[(b * dims.len + t) * state_width + d * n + k] = hidden[at];
                }
            }
        }
    }
}

}  // namespace vkformer::cpu
