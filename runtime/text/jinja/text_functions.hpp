// SPDX-License-Identifier: MIT
/// Python's functions on texts, which filters and methods share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.hpp"

namespace vkformer::text::jinja {

std::string upper(std::string_view text);
std::string lower(std::string_view text);
/// "hello wORLD" → "Hello world"
std::string capitalize(std::string_view text);
/// str.title(): a capital behind everything that is no letter.
std::string title(std::string_view text);
/// Without the characters of `set` (white space where there is none) on the sides asked for.
struct Sides {
    bool left = true;
    bool right = true;
};
std::string_view strip(std::string_view text, const std::optional<std::string>& set, Sides sides);
/// At most `count` of them, all where it is negative.
std::string replace(std::string_view text, std::string_view from, std::string_view to, std::int64_t count,
                    Budget& budget);

/// An optional argument, checked.
std::optional<std::string> text_argument(const std::optional<Value>& value, std::string_view callee);
std::int64_t integer_argument(const std::optional<Value>& value, std::int64_t fallback, std::string_view callee);

}  // namespace vkformer::text::jinja
