// SPDX-License-Identifier: MIT
#include "serve/fields.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "formats/json.hpp"
#include "serve/refusal.hpp"

namespace vkformer::serve {

using json = nlohmann::ordered_json;

bool has_large_object(const json& value) {
    if (value.is_object() && value.size() > kMostMembers) return true;
    return value.is_structured() && std::ranges::any_of(value, has_large_object);
}

json parse_body(const Request& request) {
    // Of another type, a page elsewhere could send it without the browser asking this server first.
    if (request.content_type() != "application/json")
        throw Refusal(415, "the body is to be JSON, with \"content-type: application/json\"");
    auto parsed = formats::parse_ordered_json(request.body, "the body");
    if (!parsed) throw Refusal(400, parsed.error().message);
    if (!parsed->is_object()) throw Refusal(400, "the body is no JSON object");
    if (has_large_object(*parsed))
        throw Refusal(400, "the body has an object of more than " + std::to_string(kMostMembers) + " members");
    return *std::move(parsed);
}

namespace {

std::string number_text(double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
}

}  // namespace

Fields::Fields(const json& object, std::string where) : object_(&object), where_(std::move(where)) {
    if (!object.is_object()) throw Refusal(400, "it is no JSON object", where_);
}

std::string Fields::name_of(std::string_view name) const {
    return where_.empty() ? std::string(name) : where_ + "." + std::string(name);
}

void Fields::refuse(std::string_view name, const std::string& why) const { throw Refusal(400, why, name_of(name)); }

bool Fields::has(std::string_view name) const {
    const auto found = object_->find(name);
    return found != object_->end() && !found->is_null();
}

const json* Fields::take(std::string_view name) {
    taken_.emplace(name);
    const auto found = object_->find(name);
    return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const json& Fields::needed(std::string_view name) {
    const json* const value = take(name);
    if (!value) refuse(name, "it is missing");
    return *value;
}

std::optional<std::string> Fields::text(std::string_view name) {
    const json* const value = take(name);
    if (!value) return {};
    if (!value->is_string()) refuse(name, "it is no text");
    return value->get<std::string>();
}

std::string Fields::needed_text(std::string_view name) {
    needed(name);
    return *text(name);
}

std::optional<bool> Fields::boolean(std::string_view name) {
    const json* const value = take(name);
    if (!value) return {};
    if (!value->is_boolean()) refuse(name, "it is neither true nor false");
    return value->get<bool>();
}

std::optional<double> Fields::number(std::string_view name, double least, double most) {
    const json* const value = take(name);
    if (!value) return {};
    const double number = value->is_number() ? value->get<double>() : std::nan("");
    if (!(number >= least && number <= most))
        refuse(name, "it is no number from " + number_text(least) + " to " + number_text(most));
    return number;
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t least, std::int64_t most) {
    const json* const value = take(name);
    if (!value) return {};
    const auto bad = [&] {
        refuse(name, "it is no whole number from " + std::to_string(least) + " to " + std::to_string(most));
    };
    if (!value->is_number_integer()) bad();
    if (value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) bad();
    const auto number = value->get<std::int64_t>();
    if (number < least || number > most) bad();
    return number;
}

std::vector<std::string> Fields::texts(std::string_view name, std::size_t most) {
    const json* const value = take(name);
    if (!value) return {};
    if (value->is_string()) return {value->get<std::string>()};
    if (!value->is_array()) refuse(name, "it is neither a text nor a list of texts");
    if (value->size() > most)
        refuse(name,
               "it has " + std::to_string(value->size()) + " texts, at most " + std::to_string(most) + " are taken");
    std::vector<std::string> texts;
    for (const json& item : *value) {
        if (!item.is_string()) refuse(name, "it is neither a text nor a list of texts");
        texts.push_back(item.get<std::string>());
    }
    return texts;
}

void Fields::pass_over(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) taken_.emplace(name);
}

void Fields::only(std::string_view name, const json& value, std::string_view why) {
    const json* const given = take(name);
    if (given && *given != value) refuse(name, std::string(why));
}

void Fields::finish() const {
    for (const auto& [name, value] : object_->items())
        if (!value.is_null() && !taken_.contains(name)) refuse(name, "the server does not know this field");
}

}  // namespace vkformer::serve
