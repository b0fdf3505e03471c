// SPDX-License-Identifier: MIT
/// What JSON Schema says of a value, for the keywords that are read: written from its specification, to judge what is generated.
#pragma once

#include <algorithm>
#include <cmath>
#include <regex>
#include <string>

#include <nlohmann/json.hpp>

#include "text/unicode.hpp"

namespace vkformer::tests {

class SchemaValidator {
public:
    explicit SchemaValidator(nlohmann::json schema) : root_(std::move(schema)) {}
    bool is_valid(const nlohmann::json& value) const { return fits(root_, value); }

private:
    using json = nlohmann::json;

    static bool is_type(const std::string& type, const json& v) {
        if (type == "integer") return v.is_number() && std::floor(v.get<double>()) == v.get<double>();
        if (type == "number") return v.is_number();
        return type == v.type_name();
    }
    bool fits(const json& schema, const json& v) const {
        if (schema.is_boolean()) return schema.get<bool>();
        const auto has = [&](const char* name) { return schema.contains(name); };
        const auto all = [&](const json& list, auto&& test) { return std::ranges::all_of(list, test); };
        if (has("$ref")) {
            const std::string path = schema["$ref"].get<std::string>().substr(1);
            if (!fits(root_.at(json::json_pointer(path)), v)) return false;
        }
        if (has("type")) {
            const json types = schema["type"].is_array() ? schema["type"] : json::array({schema["type"]});
            if (std::ranges::none_of(types, [&](const json& type) { return is_type(type, v); })) return false;
        }
        if (has("const") && schema["const"] != v) return false;
        if (has("enum") && std::ranges::count(schema["enum"], v) == 0) return false;
        const auto count = [&](const char* name) {
            return std::ranges::count_if(schema[name], [&](const json& part) { return fits(part, v); });
        };
        if (has("allOf") && !all(schema["allOf"], [&](const json& part) { return fits(part, v); })) return false;
        if (has("anyOf") && count("anyOf") == 0) return false;
        if (has("oneOf") && count("oneOf") != 1) return false;
        if (v.is_string() && !string_fits(schema, v.get<std::string>())) return false;
        if (v.is_number() && !number_fits(schema, v)) return false;
        if (v.is_array() && !array_fits(schema, v)) return false;
        return !v.is_object() || object_fits(schema, v);
    }
    static bool string_fits(const json& schema, const std::string& text) {
        const auto length = text::count_characters(text);
        return length >= schema.value("minLength", std::size_t{0}) &&
               length <= schema.value("maxLength", std::size_t{1} << 40) &&
               (!schema.contains("pattern") ||
                std::regex_search(text, std::regex(schema["pattern"].get<std::string>())));
    }
    static bool number_fits(const json& schema, const json& v) {
        const double n = v.get<double>();
        return n >= schema.value("minimum", -1e300) && n <= schema.value("maximum", 1e300) &&
               n > schema.value("exclusiveMinimum", -1e300) && n < schema.value("exclusiveMaximum", 1e300);
    }
    bool array_fits(const json& schema, const json& v) const {
        if (v.size() < schema.value("minItems", std::size_t{0})) return false;
        if (v.size() > schema.value("maxItems", std::size_t{1} << 40)) return false;
        const json first = schema.value("prefixItems", json::array());
        for (std::size_t i = 0; i < v.size(); ++i)
            if (!fits(i < first.size() ? first[i] : schema.value("items", json(true)), v[i])) return false;
        return true;
    }
    bool object_fits(const json& schema, const json& v) const {
        for (const auto& name : schema.value("required", json::array()))
            if (!v.contains(name)) return false;
        if (v.size() < schema.value("minProperties", std::size_t{0})) return false;
        if (v.size() > schema.value("maxProperties", std::size_t{1} << 40)) return false;
        const json members = schema.value("properties", json::object());
        for (const auto& [name, value] : v.items())
            if (!fits(members.contains(name) ? members[name] : schema.value("additionalProperties", json(true)), value))
                return false;
        return true;
    }

    json root_;
};

}  // namespace vkformer::tests
