// SPDX-License-Identifier: MIT
/// Answers that have to be calls of tools, and calls that have to fit their schemas.
#pragma once

#include <string>

#include "serve/fields.hpp"
#include "serve/tools.hpp"
#include "vkformer/constraint.hpp"

namespace vkformer::serve {

struct ForcedCalls {
    std::string prefix;     ///< what the answer begins with: the mark of a call, which only the prompt can have
    Constraint constraint;  ///< what follows: calls with arguments that their tools' schemas accept
};
/// As the model writes them: in a list as many as it will, else one. Requires a format. Throws Refusal (400): a tool's schema is none, or has
/// what is not supported.
ForcedCalls force_calls(const Fields& fields, const Tools& tools);

/// An answer that may call tools: where it does, arguments of the strict ones fit their schemas, and those of others are any objects. Requires a
/// format. Throws likewise.
Constraint strict_calls(const Fields& fields, const Tools& tools);

}  // namespace vkformer::serve
