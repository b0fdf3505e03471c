// SPDX-License-Identifier: MIT
#include "serve/forced_calls.hpp"

#include <utility>

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

/// A schema at another place: what it refers to within itself lies there, too. Constants are no schemas.
json moved(const json& schema, const std::string& place) {
    json made = schema;
    if (!made.is_structured()) return made;
    for (auto& [name, value] : made.items()) {
        if (name == "$ref" && value.is_string() && value.get_ref<const std::string&>().starts_with('#'))
            value = "#" + place + value.get_ref<const std::string&>().substr(1);
        else if (name != "const" && name != "enum")
            value = moved(value, place);
    }
    return made;
}

/// Of one tool's calls, whose arguments are an object.
json schema_of(const json& function, const char* arguments, const std::string& place) {
    json parameters = moved(function.at("parameters"), place + "/properties/" + arguments);
    if (!parameters.contains("type")) parameters["type"] = "object";
    return {{"type", "object"},
            {"properties", {{"name", {{"const", function.at("name")}}}, {arguments, std::move(parameters)}}},
            {"required", {"name", arguments}},
            {"additionalProperties", false}};
}

Constraint made_of(const Fields& fields, const std::string& whose, const json& schema) {
    auto made = Constraint::json_schema(schema.dump());
    if (!made) fields.refuse("tools", whose + made.error().message);
    return *std::move(made);
}

}  // namespace

ForcedCalls force_calls(const Fields& fields, const Tools& tools) {
    const bool is_list = tools.format == CallFormat::listed;
    const char* const arguments = tools.format == CallFormat::bare ? "parameters" : "arguments";
    json calls = json::array();
    for (const json& tool : tools.list) {
        const json& function = tool.at("function");
        const auto name = function.at("name").get<std::string>();
        if (!tools.names.contains(name)) continue;
        made_of(fields, name + ": ", function.at("parameters"));  // says where in the tool's own schema the error is
        const std::string place = (is_list ? "/items/anyOf/" : "/anyOf/") + std::to_string(calls.size());
        calls.push_back(schema_of(function, arguments, place));
    }
    json schema = {{"anyOf", std::move(calls)}};
    if (is_list) {
        schema = {{"type", "array"}, {"minItems", 1}, {"items", std::move(schema)}};
        if (tools.one_call) schema["maxItems"] = 1;
    }
    std::string prefix;
    if (tools.format == CallFormat::tagged) prefix = "<tool_call>\n";
    if (is_list) prefix = "[TOOL_CALLS]";
    return {std::move(prefix), made_of(fields, "together: ", schema)};
}

}  // namespace vkformer::serve
