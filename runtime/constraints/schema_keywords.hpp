// SPDX-License-Identifier: MIT
/// The keywords of JSON schemas, and what several schemas say with them together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace vkformer::constraints {

/// What a keyword says something about.
enum class Subject : std::uint8_t { nothing, schema, string, number, array, object };
struct Keyword {
    std::string_view name;
    Subject subject;
};
/// nullptr: none that is known, so that it may not be passed over.
const Keyword* find_keyword(std::string_view name);

/// What schemas say together that all have to hold.
struct Keywords {
    std::map<std::string_view, const nlohmann::json*> values;  // but for the members
    std::vector<std::pair<std::string_view, const nlohmann::json*>> members;
    std::vector<std::string_view> required;
    std::size_t member_lists = 0;  // schemas that name members
    bool is_never = false;         // a schema that is false

    const nlohmann::json* find(std::string_view name) const {
        const auto found = values.find(name);
        return found == values.end() ? nullptr : found->second;
    }
    const nlohmann::json* member(std::string_view name) const {
        const auto found = std::ranges::find(members, name, [](const auto& member) { return member.first; });
        return found == members.end() ? nullptr : found->second;
    }
    bool requires_member(std::string_view name) const { return std::ranges::find(required, name) != required.end(); }
    bool is_closed() const {
        const nlohmann::json* const others = find("additionalProperties");
        return others && *others == false;
    }
    bool says_nothing() const { return values.empty() && members.empty() && required.empty() && !is_never; }
    bool has(Subject subject) const {
        if (subject == Subject::object && (!members.empty() || !required.empty())) return true;
        return std::ranges::any_of(values,
                                   [&](const auto& value) { return find_keyword(value.first)->subject == subject; });
    }
};

}  // namespace vkformer::constraints
