// SPDX-License-Identifier: MIT
#pragma once

#include <cassert>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <numbers>
#include <span>

#include "cpu/float_kernels.hpp"
#include "graph/ops.hpp"

namespace vkformer::cpu {

// use(f), f one of
// relu: max(x, 0), NaN stays NaN
// gelu_erf: x · Φ(x), with Φ(x) = erfc(−x / √2) / 2, which keeps its digits where Φ is near 0
// gelu_tanh: x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))): Hendrycks and Gimpel 2016
// silu: x · sigmoid(x) = x / (1 + e^−x): Elfwing et al. 2018
// tanh; sigmoid: 1 / (1 + e^−x)
// gelu_quick: x · sigmoid(1.702 x): Hendrycks and Gimpel 2016, section 2
// relu_squared: max(x, 0)², NaN stays NaN: So et al. 2021
template <std::floating_point T>
auto with_activation(graph::Activation activation, auto&& use) {
    switch (activation) {
    case graph::Activation::none: break;
    case graph::Activation::relu: return use([](T x) { return x < 0 ? T{0} : x; });
    case graph::Activation::gelu_erf:
        return use([](T x) { return x * (std::erfc(-x / std::numbers::sqrt2_v<T>) / 2); });
    case graph::Activation::gelu_tanh:
        return use([](T x) {
            const T sqrt_2_over_pi = std::numbers::sqrt2_v<T> * std::numbers::inv_sqrtpi_v<T>;
            return x / 2 * (1 + std::tanh(sqrt_2_over_pi * (x + static_cast<T>(0.044715) * x * x * x)));
        });
    case graph::Activation::silu: return use([](T x) { return x / (1 + std::exp(-x)); });
    case graph::Activation::tanh: return use([](T x) { return std::tanh(x); });
    case graph::Activation::sigmoid: return use([](T x) { return 1 / (1 + std::exp(-x)); });
    case graph::Activation::gelu_quick: return use([](T x) { return x / (1 + std::exp(static_cast<T>(-1.702) * x)); });
    case graph::Activation::relu_squared: return use([](T x) { return x < 0 ? T{0} : x * x; });
    }
    return use([](T x) { return x; });
}

template <std::floating_point T>
T activation_of(graph::Activation activation, T x) {
    return with_activation<T>(activation, [&](auto f) { return f(x); });
}

template <std::floating_point T>
void activate(std::span<const T> x, graph::Activation activation, std::span<T> y) {
    assert(y.size() == x.size());
    if (activation == graph::Activation::none && x.data() == y.data()) return;
    if constexpr (std::same_as<T, float>) {
        if (float_kernels().activate(activation, x.data(), x.size(), y.data())) return;
    }
    with_activation<T>(activation, [&](auto f) {
        for (std::size_t i = 0; i < x.size(); ++i) y[i] = f(x[i]);
    });
}

}  // namespace vkformer::cpu
