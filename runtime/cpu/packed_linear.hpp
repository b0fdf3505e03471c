// SPDX-License-Identifier: MIT
/// linear() with a weight that stays in the format of its file.
#pragma once

#include <span>
#include <vector>

#include "core/tensor_data.hpp"
#include "cpu/linear.hpp"

namespace vkformer::cpu {

/// [out, in]: rows in one of the formats that packed_kernels() knows, in parts that follow each other.
struct PackedWeight {
    DType dtype = DType::f16;
    std::size_t in = 0;
    std::vector<TensorData> parts;
};

/// Row `row` as floats. Requires a row of the weight; out.size() is `in`.
void unpack_row(const PackedWeight& weight, std::size_t row, std::span<float> out);

/// As linear<float> with the weight's numbers. Few rows are dot products with the packed bytes; for many, some rows of the weight at a
/// time become floats for a BLAS. Throws std::bad_alloc.
void packed_linear(std::span<const float> x, const PackedWeight& weight, std::span<const float> bias,
                   std::span<const float> residual, graph::Activation activation, const LinearDims& dims,
                   std::span<float> y);

}  // namespace vkformer::cpu
