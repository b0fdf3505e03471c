// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string_view>

#include "text/jinja/ast.hpp"

namespace vkformer::text::jinja {

/// Reads a template, which must be UTF-8. Throws Failure (CorruptFile, UnsupportedConfig) and leaves the line in `line`.
Body parse(std::string_view source, std::size_t& line);

}  // namespace vkformer::text::jinja
