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

}  // namespace vkformer::cpu
