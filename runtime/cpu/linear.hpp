// SPDX-License-Identifier: MIT
#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>
#include <span>

#include "cpu/activate.hpp"
#include "cpu/blas.hpp"

namespace vkformer::cpu {

struct LinearDims {
    std::size_t rows, in, out;
};

// What a product is added to: the bias, or zeros.
template <std::floating_point T>
void begin_linear(std::span<const T> bias, std::size_t out, std::span<T> y) {
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = bias.empty() ? T{0} : bias[i % out];
}

template <std::floating_point T>
void end_linear(std::span<const T> residual, graph::Activation activation, std::span<T> y) {
    for (std::size_t i = 0; i < y.size(); ++i)
        y[i] = activation_of(activation, y[i]) + (residual.empty() ? T{0} : residual[i]);
}

// y = activation(x · weightᵀ + bias) + residual     x: [rows, in], weight: [out, in], bias: [out], residual, y: [rows, out].
// bias and residual may be empty.
template <std::floating_point T>
void linear(std::span<const T> x, std::span<const T> weight, std::span<const T> bias, std::span<const T> residual,
            graph::Activation activation, const LinearDims& dims, std::span<T> y) {
    const auto [rows, in, out] = dims;
    assert(x.size() == rows * in && weight.size() == out * in && y.size() == rows * out);
    begin_linear(bias, out, y);
    if (rows == 1)
        add_matrix_vector(out, in, T{1}, {weight.data(), in}, x.data(),
                          y.data());  // BLAS's own road for one row is slower
    else
        add_product_transposed(rows, out, in, T{1}, {x.data(), in}, {weight.data(), in}, {y.data(), out});
    end_linear(residual, activation, y);
}

}  // namespace vkformer::cpu
