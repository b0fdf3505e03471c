// SPDX-License-Identifier: MIT
/// What the typed getters of Config and Gguf expect, and how their messages say it.
#pragma once

#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace vkformer::formats {

/// What a getter expects: `config.unsigned_integer("d_model", {.min = 1, .max = 65536})`. Without a fallback the field must
/// be there. The fallback itself is not checked.
template <class T>
struct Expect {
    std::optional<T> fallback = std::nullopt;
    T min = std::numeric_limits<T>::lowest();
    T max = std::numeric_limits<T>::max();

    bool holds(T value) const { return value >= min && value <= max; }
};

/// A number as messages show it: 0.1, not 0.100000.
std::string shown(double value);
template <std::integral T>
std::string shown(T value) {
    return std::to_string(value);
}

/// "a positive integer", "a number from 0 to 1", "an integer of at least 3", …
template <class T>
std::string description(std::string_view noun, const Expect<T>& expect) {
    using Limits = std::numeric_limits<T>;
    const bool has_min = expect.min != Limits::lowest();
    const bool has_max = expect.max != Limits::max();
    if (std::integral<T> && !has_max && expect.min == 1) return "a positive " + std::string(noun);
    if (std::integral<T> && !has_max && expect.min == 0) return "a non-negative " + std::string(noun);
    std::string text = (noun.starts_with('i') ? "an " : "a ") + std::string(noun);
    if (has_min && has_max) return text + " from " + shown(expect.min) + " to " + shown(expect.max);
    if (has_min) return text + " of at least " + shown(expect.min);
    if (has_max) return text + " of at most " + shown(expect.max);
    return text;
}

}  // namespace vkformer::formats
