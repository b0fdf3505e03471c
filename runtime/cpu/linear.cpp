// SPDX-License-Identifier: MIT
#include "cpu/linear.hpp"

#include <algorithm>
#include <cassert>
#include <memory>

#include "cpu/blas.hpp"
#include "cpu/float_pool.hpp"
#include "cpu/float_product.hpp"
#include "cpu/gated_activation.hpp"
#include "cpu/packed_linear.hpp"
#include "cpu/rms_norm.hpp"
#include "cpu/rows.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {
namespace {

// y += x · weightᵀ. A weight is multiplied where it lies by few rows; for more it is laid out anew.
void add_linear(std::span<const float> x, std::span<const float> weight, const LinearDims& dims, std::span<float> y) {
    const std::size_t rows = dims.rows, in = dims.in, out = dims.out;
    if (rows > float_panel_kernels().rows_in_place)
        return add_float_product(x.data(), weight.data(), rows, in, out, y.data());
    parallel_for(out, slice_of_weight(out, in * rows, in * sizeof(float)),
                 [&](std::size_t first, std::size_t last, std::size_t) {
                     float_panel_kernels().add_transposed({.rows = rows,
                                                           .columns = last - first,
                                                           .depth = in,
                                                           .x = x.data(),
                                                           .x_stride = in,
                                                           .w = weight.data() + first * in,
                                                           .w_stride = in,
                                                           .y = y.data() + first,
                                                           .y_stride = out});
                 });
}
void add_linear(std::span<const double> x, std::span<const double> weight, const LinearDims& dims,
                std::span<double> y) {
    const auto [rows, in, out] = dims;
    if (rows == 1)
        add_matrix_vector(out, in, 1, {weight.data(), in}, x.data(), y.data());
    else
        add_product_transposed(rows, out, in, 1, {x.data(), in}, {weight.data(), in}, {y.data(), out});
}

}  // namespace

template <std::floating_point T>
void linear(std::span<const T> x, std::span<const T> weight, std::span<const T> bias, std::span<const T> residual,
            graph::Activation activation, const LinearDims& dims, std::span<T> y) {
    const auto [rows, in, out] = dims;
    assert(x.size() == rows * in && weight.size() == out * in && y.size() == rows * out);
    begin_linear(bias, out, y);
    add_linear(x, weight, dims, y);
    end_linear(residual, activation, dims, y);
}
template void linear(std::span<const float>, std::span<const float>, std::span<const float>, std::span<const float>,
                     graph::Activation, const LinearDims&, std::span<float>);
template void linear(std::span<const double>, std::span<const double>, std::span<const double>, std::span<const double>,
                     graph::Activation, const LinearDims&, std::span<double>);

namespace {

// The same of op's operands, of some rows, without what a gate does. normed: for these rows of x, where the op has a norm.
template <std::floating_point T>
void product(const graph::Linear& op, graph::Activation activation, const Operands<T>& operands, std::size_t first,
             std::size_t rows, std::span<T> normed, std::span<T> y) {
    const LinearDims dims{.rows = rows, .in = operands.width(op.x), .out = operands.rows(op.weight)};
    const auto rows_of = [&](std::span<const T> all, std::size_t width) {
        return all.empty() ? all : all.subspan(first * width, rows * width);
    };
    std::span<const T> x = rows_of(operands.floats(op.x), dims.in);
    const std::span<const T> bias = operands.floats(op.epilogue.bias);
    const std::span<const T> residual = rows_of(operands.floats(op.epilogue.residual), dims.out);
    if (const graph::Prologue& norm = op.prologue) {
        normed = normed.first(x.size());
        rms_norm_rows<T>(x, dims.in, operands.floats(norm.gain), static_cast<T>(norm.gain_offset),
                         static_cast<T>(norm.eps), normed);
        x = normed;
    }
    if constexpr (std::same_as<T, float>) {
        if (const PackedWeight* weight = operands.packed(op.weight))
            return packed_linear(x, *weight, bias, residual, activation, dims, y);
    }
    linear<T>(x, operands.floats(op.weight), bias, residual, activation, dims, y);
}

// A product for each of the matrices of a weight [batch, out, in]; x and residual have as many or, x alone, one for all.
template <std::floating_point T>
void linear_batch(const graph::Linear& op, std::size_t batch, const Operands<T>& operands) {
    const LinearDims dims{.rows = operands.rows(op.y) / batch, .in = operands.width(op.x), .out = operands.width(op.y)};
    const auto of = [](auto values, std::size_t product, std::size_t size) {
        return values.empty() ? values : values.subspan(product * size, size);
    };
    const std::size_t x_size = dims.rows * dims.in, y_size = dims.rows * dims.out;
    const std::span<const T> x = operands.floats(op.x), weight = operands.floats(op.weight);
    const std::span<const T> residual = operands.floats(op.epilogue.residual);
    for (std::size_t product = 0; product < batch; ++product)
        linear<T>(of(x, x.size() > x_size ? product : 0, x_size), of(weight, product, dims.out * dims.in),
                  operands.floats(op.epilogue.bias), of(residual, product, y_size), op.epilogue.activation, dims,
                  of(operands.floats(op.y), product, y_size));
}

}  // namespace

template <std::floating_point T>
void execute(const graph::Linear& op, const Operands<T>& operands) {
    const std::size_t batch = operands.shape(op.weight).rank() == 3 ? operands.dim(op.weight, 0) : 1;
    if (batch > 1) return linear_batch(op, batch, operands);
    const std::size_t count = operands.rows(op.y), width = operands.width(op.y);
    const std::size_t in = op.prologue ? operands.width(op.x) : 0, both = op.is_gated() ? 2 * width : 0;
    if (in + both == 0) return product<T>(op, op.epilogue.activation, operands, 0, count, {}, operands.floats(op.y));
    // By some rows at a time: normed x, and the halves before the gate, which no plan counts, would be as large as x, and twice y.
    constexpr std::size_t kBytes = std::size_t{16} << 20;
    const std::size_t most = std::max<std::size_t>(1, kBytes / ((both == 0 ? in : both) * sizeof(T)));
    const std::size_t times = (count + most - 1) / most, each = (count + times - 1) / times;
    const std::shared_ptr<T[]> scratch = aligned_floats<T>(each * (in + both));
    const std::span<T> normed(scratch.get(), each * in);
    for (std::size_t first = 0; first < count; first += each) {
        const std::size_t rows = std::min(each, count - first);
        if (both == 0) {
            product(op, op.epilogue.activation, operands, first, rows, normed,
                    operands.floats(op.y).subspan(first * width, rows * width));
            continue;
        }
        const std::span<T> halves(scratch.get() + normed.size(), rows * both);
        product(op, graph::Activation::none, operands, first, rows, normed, halves);
        for_rows(rows, width, [&](std::size_t row) {
            gated_halves(row_of(std::span<const T>(halves), row, both), op.epilogue.activation,
                         operands.floats(op.y, first + row));
        });
    }
}
template void execute(const graph::Linear&, const Operands<float>&);
template void execute(const graph::Linear&, const Operands<double>&);

ErrorRule error_rule(const graph::Linear& op, const graph::Graph& graph) {
    // GELU and SiLU: erf, tanh and exp in float32, good to some units of the largest value
    const double constant = op.is_gated() || op.epilogue.activation != graph::Activation::none ? 32 : 8;
    // x as RmsNorm gives it
    const ErrorRule sum = op.prologue ? ErrorRule{constant + 16, 16, graph.shape(op.x).back()}
                                      : ErrorRule{constant, 8, graph.shape(op.x).back()};
    const double factors = op.factors();
    return {sum.constant + 2 * (factors - 1), factors * sum.per_root_term, sum.terms};
}

}  // namespace vkformer::cpu
