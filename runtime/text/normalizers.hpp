// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "text/json_field.hpp"
#include "vkformer/result.hpp"

namespace vkformer::text {

/// A stretch of text on its way to the model.
struct Piece {
    std::string text;
    std::size_t from_first = 0;  ///< its leading bytes that come from the first character of the whole text

    bool at_start() const noexcept { return from_first > 0; }
    Piece slice(std::size_t begin, std::size_t end) const {
        return {text.substr(begin, end - begin), from_first > begin ? std::min(from_first, end) - begin : 0};
    }
};

using Normalizer = std::function<Result<void>(Piece&)>;

/// Errors: CorruptFile, UnsupportedConfig (a type that is not implemented, by name).
Result<Normalizer> read_normalizer(const Field& field);

/// The text in lower case, character by character. Requires valid UTF-8.
std::string lower_case(std::string_view text);

}  // namespace vkformer::text
