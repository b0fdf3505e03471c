// SPDX-License-Identifier: MIT
/// The values of "format" in JSON schemas.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace vkformer::constraints {

/// A regular expression for texts of the format; nothing: it is not known.
std::optional<std::string> expression_of_format(std::string_view name);

}  // namespace vkformer::constraints
