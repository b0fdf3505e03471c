// SPDX-License-Identifier: MIT
/// What a request says that its answer has to be.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>

#include "serve/fields.hpp"
#include "vkformer/constraint.hpp"

namespace vkformer::serve {

/// `response_format` of OpenAI's chat (text, json_object, json_schema), and vLLM's `guided_json`, `guided_regex`, `guided_choice` and
/// `structured_outputs`: one of them at most. Schemas are read from the request's body, for members come in their order. Throws Refusal
/// (400), which says what is wrong with a schema or an expression, and where.
std::optional<Constraint> read_constraint(Fields& fields, const Request& request);

/// A format of OpenAI's newer API, whose schema lies beside its type. `path`: the fields that lead to it.
std::optional<Constraint> read_flat_format(Fields& format, const Request& request,
                                           std::initializer_list<std::string_view> path);

}  // namespace vkformer::serve
