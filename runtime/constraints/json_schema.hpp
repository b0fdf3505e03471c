// SPDX-License-Identifier: MIT
/// JSON schemas as grammars. All errors are InvalidArgument and say what is wrong and where, or what is not supported.
#pragma once

#include <memory>
#include <string_view>

#include "constraints/grammar.hpp"

namespace vkformer::constraints {

/// Values that a JSON schema (draft 2020-12, and what older ones spell alike) accepts: not all of them, but none that it does not.
/// Members come in the schema's order, those that it does not name only where it says additionalProperties.
Result<std::shared_ptr<const Grammar>> json_schema_grammar(std::string_view schema);
/// Any JSON object.
Result<std::shared_ptr<const Grammar>> json_object_grammar();

}  // namespace vkformer::constraints
