// SPDX-License-Identifier: MIT
#include "text/json_field.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "formats/json.hpp"

namespace vkformer::text {
namespace {

std::string member_path(const std::string& path, std::string_view name) {
    return path + (path.ends_with(".json") ? ": " : ".") + std::string(name);
}

}  // namespace

bool Field::has(std::string_view name) const { return find(name).has_value(); }

std::optional<Field> Field::find(std::string_view name) const {
    if (!value_->is_object()) return std::nullopt;
    const auto found = value_->find(std::string(name));
    if (found == value_->end() || found->is_null()) return std::nullopt;
    return Field(*found, member_path(path_, name));
}

Result<Field> Field::at(std::string_view name) const {
    if (auto field = find(name)) return *std::move(field);
    return corrupt("has no " + formats::quote(name));
}

Result<std::vector<Field>> Field::elements() const {
    if (!value_->is_array()) return corrupt("expected a list");
    std::vector<Field> elements;
    elements.reserve(value_->size());
    for (std::size_t i = 0; i < value_->size(); ++i)
        elements.emplace_back((*value_)[i], path_ + "[" + std::to_string(i) + "]");
    return elements;
}

Result<std::vector<Field>> Field::elements(std::string_view name) const {
    VKFORMER_TRY(const Field field, at(name));
    return field.elements();
}

Result<std::string> Field::text() const {
    if (!value_->is_string()) return corrupt("expected a text");
    return value_->get<std::string>();
}

Result<std::string> Field::text(std::string_view name) const {
    VKFORMER_TRY(const Field field, at(name));
    return field.text();
}

Result<std::string> Field::text(std::string_view name, std::string fallback) const {
    if (const auto field = find(name)) return field->text();
    return fallback;
}

Result<bool> Field::boolean(std::string_view name) const {
    VKFORMER_TRY(const Field field, at(name));
    if (!field.json().is_boolean()) return field.corrupt("expected true or false");
    return field.json().get<bool>();
}

Result<bool> Field::boolean(std::string_view name, bool fallback) const {
    if (has(name)) return boolean(name);
    return fallback;
}

Result<double> Field::number() const {
    if (!value_->is_number()) return corrupt("expected a number");
    return value_->get<double>();
}

Result<std::int32_t> Field::id() const {
    if (value_->is_number_unsigned() && std::in_range<std::int32_t>(value_->get<std::uint64_t>()))
        return static_cast<std::int32_t>(value_->get<std::uint64_t>());
    return corrupt("expected a non-negative integer below 2147483648");
}

Result<std::int32_t> Field::id(std::string_view name) const {
    VKFORMER_TRY(const Field field, at(name));
    return field.id();
}

Result<std::int32_t> Field::id(std::string_view name, std::int32_t fallback) const {
    if (has(name)) return id(name);
    return fallback;
}

Result<void> Field::check_members(std::initializer_list<std::string_view> names) const {
    if (!value_->is_object()) return corrupt("expected an object");
    for (const auto& [name, member] : value_->items())
        if (!member.is_null() && std::ranges::find(names, std::string_view(name)) == names.end())
            return unsupported("the option " + formats::quote(name) + " is not supported");
    return {};
}

Error Field::corrupt(std::string_view what) const { return {ErrorCode::CorruptFile, path_ + ": " + std::string(what)}; }

Error Field::unsupported(std::string_view what) const {
    return {ErrorCode::UnsupportedConfig, path_ + ": " + std::string(what)};
}

}  // namespace vkformer::text
