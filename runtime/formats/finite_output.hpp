// SPDX-License-Identifier: MIT
#pragma once

#include "formats/output_tensor.hpp"

namespace vkformer::formats {

/// each_piece of a weight. Errors: InvalidArgument besides, by the tensor's name (a number that is not finite, or that is beyond its
/// dtype or the scales of its blocks).
Result<void> each_finite_piece(const OutputTensor& tensor,
                               const std::function<Result<void>(std::span<const std::byte>)>& write);

}  // namespace vkformer::formats
