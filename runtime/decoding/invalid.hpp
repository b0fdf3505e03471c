// SPDX-License-Identifier: MIT
/// What a session says of arguments that it cannot take.
#pragma once

#include <string>
#include <utility>

#include "vkformer/result.hpp"

namespace vkformer::decoding {

inline Error invalid(std::string message) { return {ErrorCode::InvalidArgument, std::move(message)}; }

}  // namespace vkformer::decoding
