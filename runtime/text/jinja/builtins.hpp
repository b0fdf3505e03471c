// SPDX-License-Identifier: MIT
/// Jinja's filters and tests, and the methods of Python's values, as far as chat templates use them.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/value.hpp"

namespace vkformer::text::jinja {

bool has_filter(std::string_view name);
Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments, Budget& budget);

bool has_test(std::string_view name);
bool apply_test(std::string_view name, const Value& value, const Arguments& arguments, Budget& budget);

/// "…".strip, [...].index, {...}.items: nothing where the type has no such method. Methods that would change a value are
/// refused by name, as transformers' sandbox does.
std::optional<Value> find_method(const Value& object, std::string_view name, Budget& budget);

/// value[index] and value.name without its methods; undefined where there is none.
Value item_of(const Value& object, const Value& index, Budget& budget);

}  // namespace vkformer::text::jinja
