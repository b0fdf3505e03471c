// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "core/dtype.hpp"
#include "core/shape.hpp"

namespace vkformer {

/// A read-only tensor somewhere in host memory: little-endian, row-major, possibly misaligned.
/// A plain value; `owner` keeps the bytes alive (a mapped file, a vector).
struct TensorData {
    DType dtype = DType::f32;
    Shape shape;
    std::span<const std::byte> bytes;  ///< exactly element_count · element_bytes(dtype)
    std::shared_ptr<const void> owner;
};

}  // namespace vkformer
