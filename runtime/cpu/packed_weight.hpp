// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/tensor_data.hpp"

namespace vkformer::cpu {

struct Int8Kernels;

/// [out, in]: rows in one of the formats that packed_kernels() knows, in parts that follow each other.
struct PackedWeight {
    DType dtype = DType::f16;
    std::size_t in = 0;
    std::vector<TensorData> parts;
    std::vector<std::size_t> begins{};  ///< the first row of each part, for who reads some rows of many
    const Int8Kernels* int8 = nullptr;  ///< activations are rounded to 8 bits; null: they stay floats
    bool is_copy = false;               ///< of what its file has
};

/// Row `row` as floats. Requires a row of the weight; out.size() is `in`.
void unpack_row(const PackedWeight& weight, std::size_t row, std::span<float> out);

}  // namespace vkformer::cpu
