// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <span>

#include "cpu/activate.hpp"
#include "cpu/add.hpp"
#include "cpu/parallel.hpp"

namespace vkformer::cpu {

/// Rows of a weight that a thread takes at a time where each is read once: up to 128 KiB of them, since where a slice begins, nothing was
/// asked for ahead.
inline std::size_t slice_of_weight(std::size_t count, std::size_t products, std::size_t row_bytes) {
    constexpr std::size_t kBytes = std::size_t{1} << 17;
    return std::max(slice_of(count, products), std::min(count / (4 * parallel_threads()), kBytes / row_bytes));
}

struct LinearDims {
    std::size_t rows, in, out;
};

// y = activation(x · weightᵀ + bias) + residual     x: [rows, in], weight: [out, in], bias: [out], residual, y: [rows, out].
// bias and residual may be empty. Throws std::bad_alloc.
template <std::floating_point T>
void linear(std::span<const T> x, std::span<const T> weight, std::span<const T> bias, std::span<const T> residual,
            graph::Activation activation, const LinearDims& dims, std::span<T> y);

// What a product is added to: the bias, or zeros.
template <std::floating_point T>
void begin_linear(std::span<const T> bias, std::size_t out, std::span<T> y) {
    assert(out > 0);
    const std::size_t rows = y.size() / out;
    parallel_for(rows, slice_of(rows, out), [&](std::size_t first, std::size_t last, std::size_t) {
        for (std::size_t row = first; row < last; ++row)
            if (bias.empty())
                std::fill_n(&y[row * out], out, T{0});
            else
                std::ranges::copy(bias, &y[row * out]);
    });
}

template <std::floating_point T>
void end_linear(std::span<const T> residual, graph::Activation activation, const LinearDims& dims, std::span<T> y) {
    if (activation == graph::Activation::none && residual.empty()) return;
    parallel_for(dims.rows, slice_of(dims.rows, 8 * dims.out), [&](std::size_t first, std::size_t last, std::size_t) {
        const std::size_t from = first * dims.out, count = (last - first) * dims.out;
        const std::span<T> some = y.subspan(from, count);
        activate<T>(some, activation, some);
        if (!residual.empty()) add<T>(some, residual.subspan(from, count), some);
    });
}

}  // namespace vkformer::cpu
