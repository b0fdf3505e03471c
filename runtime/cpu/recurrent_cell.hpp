// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <span>

#include "cpu/activate.hpp"

namespace vkformer::cpu {

template <std::floating_point T>
T sigmoid(T x) {
    return activation_of(graph::Activation::sigmoid, x);
}

// One hidden unit of an LSTM; i, f, g, o are sums of what the input gives (x) and of what the state gives (h), `stride` apart:
//   c' = σ(f) · c + σ(i) · tanh(g),  h' = σ(o) · tanh(c')     Hochreiter and Schmidhuber 1997, Gers et al. 2000.
template <std::floating_point T>
void lstm_unit(const T* x, const T* h, std::size_t stride, T& hidden, T& cell) {
    const T i = sigmoid(x[0] + h[0]), f = sigmoid(x[stride] + h[stride]);
    const T g = std::tanh(x[2 * stride] + h[2 * stride]), o = sigmoid(x[3 * stride] + h[3 * stride]);
    cell = f * cell + i * g;
    hidden = o * std::tanh(cell);
}

// One hidden unit of a GRU: n = tanh(n_x + σ(r) · n_h),  h' = (1 − σ(z)) · n + σ(z) · h     Cho et al. 2014, with the reset gate
// after the product.
template <std::floating_point T>
void gru_unit(const T* x, const T* h, std::size_t stride, T& hidden) {
    const T r = sigmoid(x[0] + h[0]), z = sigmoid(x[stride] + h[stride]);
    const T n = std::tanh(x[2 * stride] + r * h[2 * stride]);
    hidden = (1 - z) * n + z * hidden;
}

// One step of [rows, hidden_dim] units from gates [rows, gates · hidden_dim]; the cells are used for an LSTM only. The next states may
// be the old ones.
template <std::floating_point T>
void recurrent_cell(std::span<const T> input_gates, std::span<const T> hidden_gates, graph::RecurrentUnit unit,
                    std::size_t hidden_dim, std::span<const T> hidden, std::span<const T> cell,
                    std::span<T> next_hidden, std::span<T> next_cell) {
    const std::size_t width = gates_of(unit) * hidden_dim;
    for (std::size_t row = 0; row * width < input_gates.size(); ++row)
        for (std::size_t k = 0; k < hidden_dim; ++k) {
            const T* x = &input_gates[row * width + k];
            const T* h = &hidden_gates[row * width + k];
            const std::size_t at = row * hidden_dim + k;
            next_hidden[at] = hidden[at];
            if (unit == graph::RecurrentUnit::lstm) {
                next_cell[at] = cell[at];
                lstm_unit(x, h, hidden_dim, next_hidden[at], next_cell[at]);
            } else {
                gru_unit(x, h, hidden_dim, next_hidden[at]);
            }
        }
}

}  // namespace vkformer::cpu
