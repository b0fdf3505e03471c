// SPDX-License-Identifier: MIT
/// JSON bodies, field by field: what was not asked for is refused by name, so that nothing is passed over that would change an answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "serve/http.hpp"

namespace vkformer::serve {

/// The object that the body is, members in its order, for models are trained on that. Throws Refusal: 415 (another content-type), 400 (no
/// JSON, nested too deep, a key twice, an object with very many members, no object).
nlohmann::ordered_json parse_body(const Request& request);

/// Of one object: what looks for a member, and what reads objects again, goes through all of them.
inline constexpr std::size_t kMostMembers = 4096;
bool has_large_object(const nlohmann::ordered_json& value);

/// One object. The functions take a field, null counting as absent, and throw Refusal (400) with its name where it is not what they say.
class Fields {
public:
    /// `object` outlives it. `where`: what its fields are called with, "messages[0]"; empty for the body. Throws Refusal (400; no object).
    Fields(const nlohmann::ordered_json& object, std::string where = {});
    Fields(nlohmann::ordered_json&& object, std::string where = {}) = delete;

    bool has(std::string_view name) const;
    /// The value as it is; nullptr where absent.
    const nlohmann::ordered_json* take(std::string_view name);
    std::optional<std::string> text(std::string_view name);
    std::string needed_text(std::string_view name);
    std::optional<bool> boolean(std::string_view name);
    std::optional<double> number(std::string_view name, double least, double most);
    std::optional<std::int64_t> integer(std::string_view name, std::int64_t least, std::int64_t most);
    /// One text or a list of them.
    std::vector<std::string> texts(std::string_view name, std::size_t most);
    const nlohmann::ordered_json& needed(std::string_view name);

    /// Fields that change no answer.
    void pass_over(std::initializer_list<std::string_view> names);
    /// A field that is taken with that value alone, which asks for what is done anyway.
    void only(std::string_view name, const nlohmann::ordered_json& value, std::string_view why);
    /// Throws Refusal (400) where there is a field that no function has taken.
    void finish() const;

    std::string name_of(std::string_view name) const;
    [[noreturn]] void refuse(std::string_view name, const std::string& why) const;

private:
    const nlohmann::ordered_json* object_;
    std::string where_;
    std::set<std::string, std::less<>> taken_;
};

}  // namespace vkformer::serve
