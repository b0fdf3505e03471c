// SPDX-License-Identifier: MIT
/// What a request says that its answer has to be.
#pragma once

#include <optional>
#include <string_view>

#include "serve/fields.hpp"
#include "vkformer/constraint.hpp"

namespace vkformer::serve {

/// OpenAI's formats: text, json_object, json_schema. `is_flat`: as the newer API has them, the schema beside its type. Throws Refusal (400),
/// which says what is wrong with a schema, and where; so does the other.
std::optional<Constraint> read_format(Fields& fields, std::string_view name, bool is_flat);

/// `response_format` of OpenAI's chat, and vLLM's `guided_json`, `guided_regex`, `guided_choice` and `structured_outputs`: one of them at most.
std::optional<Constraint> read_constraint(Fields& fields);

}  // namespace vkformer::serve
