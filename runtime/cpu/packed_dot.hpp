// SPDX-License-Identifier: MIT
/// Dot products with rows of weights that stay in the format of their file, and rows of them as floats: where a product has few rows
/// it is the bytes of the weights that take the time. x is float32 and is not quantised: what differs from a product with the numbers
/// of convert() is the order of the sums, and where a format has an offset (q4_0, q6_k: 8 and 32; q4_k, q5_k: a minimum; iq4_nl: 128; mxfp4: 12) that it is
/// taken away as offset · Σ x, which may lose another three bits. That stays below the bounds of float32, so that the float
/// backend gives what it gives with weights as floats; the oracle in double always has them as numbers.
#pragma once

#include <cstddef>

#include "core/dtype.hpp"

namespace vkformer::cpu {

/// Rows of x that `dot_four` takes.
inline constexpr std::size_t kFourRows = 4;

/// For one format; the same functions compiled for plain and for wide vectors.
struct PackedKernels {
    /// Floats that `arrange` writes for a row of `in` elements.
    std::size_t (*arranged_size)(std::size_t in);
    /// Lays x out as `dot` reads it: once for all rows of a weight.
    void (*arrange)(const float* x, std::size_t in, float* arranged);
    /// Σ_i x[i] · w[i], summed in float32, of a row's bytes.
    float (*dot)(const std::byte* row, const float* arranged, std::size_t in);
    /// w[0 … in − 1], each the very number that convert() gives.
    void (*unpack)(const std::byte* row, std::size_t in, float* out);
    /// sums[r] = `dot` of row r of four, which lie arranged_size(in) apart. Null: four by `dot` take no longer.
    void (*dot_four)(const std::byte* row, const float* arranged, std::size_t in, float* sums) = nullptr;
};

/// By what the processor can do; null: the format has none. Those of f16, bf16 and the block formats.
const PackedKernels* packed_kernels(DType dtype) noexcept;
/// The same for processors without wide vectors, which is also what the others are tested against.
const PackedKernels* plain_packed_kernels(DType dtype) noexcept;

}  // namespace vkformer::cpu
