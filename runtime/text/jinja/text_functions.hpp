// SPDX-License-Identifier: MIT
/// Python's functions on texts, which filters and methods share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.hpp"

namespace vkformer::text::jinja {

std::string upper(std::string_view text, Budget& budget);
std::string lower(std::string_view text, Budget& budget);
/// "hello wORLD" → "Hello world"
std::string capitalize(std::string_view text, Budget& budget);
/// str.title(): a capital behind everything that is no letter.
std::string title(std::string_view text, Budget& budget);
/// Without the characters of `set` (white space where there is none) on the sides asked for.
struct Sides {
    bool left = true;
    bool right = true;
};
std::string_view strip(std::string_view text, std::optional<std::string_view> set, Sides sides, Budget& budget);
/// At most `count` of them, all where it is negative.
std::string replace(std::string_view text, std::string_view from, std::string_view to, std::int64_t count,
                    Budget& budget);

/// An optional argument, checked; the text is the value's.
std::optional<std::string_view> text_argument(const std::optional<Value>& value, std::string_view callee);
std::int64_t integer_argument(const std::optional<Value>& value, std::int64_t fallback, std::string_view callee);

}  // namespace vkformer::text::jinja
