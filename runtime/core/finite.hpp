// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/dtype.hpp"

namespace vkformer {

/// The first element of a tensor that is infinite or no number; of a block format, the first element of the first block with such a
/// scale; of mxfp4, with one whose larger numbers are infinite (e > 252), whether the block has them or not; of f64, one beyond float32's
/// range, too. Of all but f64 it looks at exponent bits only: some gigabytes a second. Requires a float dtype or a block format,
/// and whole elements.
std::optional<std::uint64_t> first_not_finite(DType dtype, std::span<const std::byte> bytes);

}  // namespace vkformer
