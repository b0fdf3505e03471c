// SPDX-License-Identifier: MIT
/// What a session says of arguments that it cannot take.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "vkformer/result.hpp"

namespace vkformer::decoding {

inline Error invalid(std::string message) { return {ErrorCode::InvalidArgument, std::move(message)}; }

/// The error of one of several, with its number, from 1: "text 3: …".
inline Error numbered(std::string_view what, std::size_t index, Error error) {
    error.message = std::string(what) + " " + std::to_string(index + 1) + ": " + error.message;
    return error;
}

}  // namespace vkformer::decoding
