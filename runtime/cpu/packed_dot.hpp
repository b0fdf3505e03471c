// SPDX-License-Identifier: MIT
/// Dot products with rows of weights that stay in the format of their file, and rows of them as floats: where a product has few rows
/// it is the bytes of the weights that take the time.
#pragma once

#include <cstddef>

#include "core/dtype.hpp"

namespace vkformer::cpu {

/// For one format; the same functions compiled for plain and for wide vectors (packed_dot.inl).
struct PackedKernels {
    /// Floats that `arrange` writes for a row of `in` elements.
    std::size_t (*arranged_size)(std::size_t in);
    /// Lays x out as `dot` reads it: once for all rows of a weight.
    void (*arrange)(const float* x, std::size_t in, float* arranged);
    /// Σ_i x[i] · w[i], summed in float32, of a row's bytes.
    float (*dot)(const std::byte* row, const float* arranged, std::size_t in);
    /// w[0 … in − 1], each the very number that convert() gives.
    void (*unpack)(const std::byte* row, std::size_t in, float* out);
};

/// Of a product of float32 matrices. x: [rows, depth], w: [columns, depth], y: [rows, columns], by rows `stride` elements apart.
struct ProductOperands {
    std::size_t rows, columns, depth;
    const float* x;
    std::size_t x_stride;
    const float* w;
    std::size_t w_stride;
    float* y;
    std::size_t y_stride;
};

/// For float32, on the calling thread and without blocks: w is to be in a cache, or x to have few rows.
struct FloatKernels {
    /// y[r, c] += Σ_i x[r, i] · w[c, i]
    void (*add_products)(const ProductOperands& operands);
    /// y[i] += Σ_j scales[j] · w[j · w_stride + i] for j below `count` and i below `width`
    void (*add_scaled_rows)(const float* scales, std::size_t count, const float* w, std::size_t w_stride,
                            std::size_t width, float* y);
};

const FloatKernels& float_kernels() noexcept;
const FloatKernels& plain_float_kernels() noexcept;

/// By what the processor can do; null: the format has none. Those of f16, bf16, q8_0 and q4_0.
const PackedKernels* packed_kernels(DType dtype) noexcept;
/// The same for processors without wide vectors, which is also what the others are tested against.
const PackedKernels* plain_packed_kernels(DType dtype) noexcept;

}  // namespace vkformer::cpu
