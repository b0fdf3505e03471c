// SPDX-License-Identifier: MIT
/// What a model writes that may call tools, as a grammar.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "constraints/grammar.hpp"
#include "serve/tool_calls.hpp"

namespace vkformer::serve {

/// Free text, in which whatever CallReader takes for a call is one that the schemas accept: what begins as one goes on as one. `calls`: the
/// schema of a call, or with CallFormat::listed of a list of them; `arguments`: of each tool's, by its name. Requires a format. Errors:
/// InvalidArgument (a schema is none, or has what is not supported; too large together).
Result<std::shared_ptr<const constraints::Grammar>> calls_grammar(CallFormat format, const std::string& calls,
                                                                  const std::map<std::string, std::string>& arguments);

/// Nothing but calls as names_calls() has them, behind the first one's mark. `one_call`: no more than that. Errors likewise.
Result<std::shared_ptr<const constraints::Grammar>> named_calls_grammar(
    const std::map<std::string, std::string>& arguments, bool one_call);

}  // namespace vkformer::serve
