// SPDX-License-Identifier: MIT
/// Tensors on their way into a file: converted piece by piece, so that a model larger than the memory can be written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor_data.hpp"
#include "vkformer/result.hpp"

namespace vkformer::formats {

/// `source` stored as `dtype`: the same dtype, or any float or block format from any float or block format.
struct OutputTensor {
    std::string name;
    DType dtype = DType::f32;
    TensorData source;
    /// The source's row that each row becomes; empty: each stays where it is. The rows of a vector are its elements.
    std::vector<std::uint64_t> row_order = {};
    std::vector<std::uint64_t> column_order = {};  ///< likewise of the elements of each row
    /// Of a block format: how much the error of each element of a row counts (core/block_format.hpp), the same for all rows, or for those of
    /// each matrix of a stack [matrices, rows, elements]. None: all alike.
    std::shared_ptr<const std::vector<float>> importance = {};
    /// Not empty: what stands one behind the other in place of the source's bytes, which are then none: matrices of a stack, rows of a matrix.
    std::vector<TensorData> parts = {};

    std::uint64_t bytes() const noexcept { return bytes_of(dtype, source.shape.element_count()); }
};

/// The bytes written so far, of all.
using WriteProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Errors: InvalidArgument (bytes or parts that do not fit the shape, an order that does not fit the rows or columns, an importance of another
/// number of elements, rows that are no multiple of the block), UnsupportedDtype (no conversion).
Result<void> check_output(const OutputTensor& tensor);

/// Calls `write` with the bytes of the tensor, in order, some megabytes at a time. Requires check_output.
Result<void> each_piece(const OutputTensor& tensor,
                        const std::function<Result<void>(std::span<const std::byte>)>& write);

}  // namespace vkformer::formats
