// SPDX-License-Identifier: MIT
/// linear() with a weight that stays in the format of its file.
#pragma once

#include <span>

#include "cpu/linear.hpp"
#include "cpu/packed_weight.hpp"

namespace vkformer::cpu {

/// As linear<float> with the weight's numbers, where weight.int8 is null; with it, x is rounded to 8 bits (int8_kernels.hpp). Few rows
/// are dot products with the packed bytes; for many, some rows of the weight at a time are laid out anew, as floats or bytes, in the cache
/// of the thread that multiplies them. Throws std::bad_alloc.
void packed_linear(std::span<const float> x, const PackedWeight& weight, std::span<const float> bias,
                   std::span<const float> residual, graph::Activation activation, const LinearDims& dims,
                   std::span<float> y);

/// Rows first … first + count − 1 as a weight of their own. Requires begins.
PackedWeight rows_of(const PackedWeight& weight, std::size_t first, std::size_t count);

/// Up to so many rows of x are rather multiplied one by one with the packed bytes.
std::size_t most_single_rows(const PackedWeight& weight);

/// A row of x times some rows of a weight, from first_row on.
struct RowProduct {
    std::size_t x_row, y_row, first_row;
};

/// y[y_row] = x[x_row] · (`out` rows of weight)ᵀ for each of the products, as packed_linear does it for few rows; neighbours with one first_row
/// read the weight together. x: [… , in], y: [… , out]. Requires begins. Throws std::bad_alloc.
void packed_row_products(std::span<const float> x, const PackedWeight& weight, std::span<const RowProduct> products,
                         std::size_t out, std::span<float> y);

/// Calls work(product, first, last) for columns first … last − 1 of all products, over several threads. `row_bytes`: of the weight.
void for_columns_of(std::span<const RowProduct> products, std::size_t in, std::size_t out, std::size_t row_bytes,
                    auto&& work) {
    const std::size_t count = products.size() * out;
    parallel_for(count, slice_of_weight(count, in, row_bytes), [&](std::size_t first, std::size_t last, std::size_t) {
        while (first < last) {
            const std::size_t column = first % out, some = std::min(last - first, out - column);
            work(products[first / out], column, column + some);
            first += some;
        }
    });
}

}  // namespace vkformer::cpu
