// SPDX-License-Identifier: MIT
/// A choice of texts as a grammar.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "constraints/grammar.hpp"

namespace vkformer::constraints {

/// One of the texts. Errors: InvalidArgument (there are none, one is empty or not UTF-8, they are too large).
Result<std::shared_ptr<const Grammar>> choice_grammar(std::span<const std::string> texts);

}  // namespace vkformer::constraints
