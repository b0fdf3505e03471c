// SPDX-License-Identifier: MIT
#include "serve/forced_calls.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

/// What a schema refers to within itself lies at `place` from now on. `is_map`: members are named by somebody, not by the standard.
void move_references(json& schema, const std::string& place, bool is_map = false) {
    if (schema.is_array())
        for (json& item : schema) move_references(item, place);
    if (!schema.is_object()) return;
    for (auto& [name, value] : schema.items()) {
        if (is_map)
            move_references(value, place);
        else if (name == "$ref" && value.is_string() && value.get_ref<const std::string&>().starts_with('#'))
            value = "#" + place + value.get_ref<const std::string&>().substr(1);
        else if (name != "const" && name != "enum")  // these are no schemas
            move_references(value, place, name == "properties" || name == "$defs" || name == "definitions");
    }
}

/// Arguments are objects, whatever else a schema lets through.
json parameters_of(const Fields& fields, const json& function) {
    json parameters = function.at("parameters");
    const json types = parameters.value("type", json("object"));
    if (types != "object" && !(types.is_array() && std::ranges::find(types, json("object")) != types.end()))
        fields.refuse("tools",
                      function.at("name").get<std::string>() + ": its parameters are of another type than object");
    parameters["type"] = "object";
    return parameters;
}

json call_of(const std::string& name, const char* arguments, json parameters) {
    return {{"type", "object"},
            {"properties", {{"name", {{"const", name}}}, {arguments, std::move(parameters)}}},
            {"required", {"name", arguments}},
            {"additionalProperties", false}};
}

/// Says in which tool's schema the error is, and where.
[[noreturn]] void refuse_schemas(const Fields& fields, const std::map<std::string, json>& schemas,
                                 const Error& together) {
    for (const auto& [name, schema] : schemas)
        if (const auto made = Constraint::json_schema(schema.dump()); !made)
            fields.refuse("tools", name + ": " + made.error().message);
    fields.refuse("tools", "together: " + together.message);
}

}  // namespace

ForcedCalls force_calls(const Fields& fields, const Tools& tools) {
    const bool is_list = tools.format == CallFormat::listed;
    const char* const arguments = tools.format == CallFormat::bare ? "parameters" : "arguments";
    std::map<std::string, json> schemas;  // of the tools' own
    json calls = json::array();
    for (const json& tool : tools.list) {
        const json& function = tool.at("function");
        const auto name = function.at("name").get<std::string>();
        if (!tools.names.contains(name)) continue;
        json parameters = parameters_of(fields, function);
        schemas[name] = parameters;
        move_references(parameters, (is_list ? "/items/anyOf/" : "/anyOf/") + std::to_string(calls.size()) +
                                        "/properties/" + arguments);
        calls.push_back(call_of(name, arguments, std::move(parameters)));
    }
    json schema = {{"anyOf", std::move(calls)}};
    if (is_list) {
        schema = {{"type", "array"}, {"minItems", 1}, {"items", std::move(schema)}};
        if (tools.one_call) schema["maxItems"] = 1;
    }
    auto constraint = Constraint::json_schema(schema.dump());
    if (!constraint) refuse_schemas(fields, schemas, constraint.error());
    std::string prefix;
    if (tools.format == CallFormat::tagged) prefix = "<tool_call>\n";
    if (is_list) prefix = "[TOOL_CALLS]";
    return {std::move(prefix), *std::move(constraint)};
}

}  // namespace vkformer::serve
