// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "text/json_field.hpp"
#include "vkformer/result.hpp"

namespace vkformer::text {

/// Turns tokens into pieces of text; joined they are the text.
using Decoder = std::function<void(std::vector<std::string>&)>;

/// Errors: CorruptFile, UnsupportedConfig (a type that is not implemented, by name).
Result<Decoder> read_decoder(const Field& field);

}  // namespace vkformer::text
