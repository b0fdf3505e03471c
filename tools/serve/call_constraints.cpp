// SPDX-License-Identifier: MIT
#include "serve/call_constraints.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "api/constraints.hpp"
#include "serve/calls_grammar.hpp"

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

struct CallSchemas {
    json calls;                         ///< of a call, or of a list of them
    std::map<std::string, json> tools;  ///< of their arguments, by name
};

/// `any_object`: of these tools, whose schemas do not count.
CallSchemas schemas_of(const Fields& fields, const Tools& tools, const std::set<std::string>& any_object) {
    const bool is_list = tools.format == CallFormat::listed;
    const char* const arguments = tools.format == CallFormat::bare ? "parameters" : "arguments";
    CallSchemas schemas;
    json calls = json::array();
    for (const json& tool : tools.list) {
        const json& function = tool.at("function");
        const auto name = function.at("name").get<std::string>();
        if (!tools.names.contains(name)) continue;
        json parameters = any_object.contains(name) ? json{{"type", "object"}} : parameters_of(fields, function);
        schemas.tools[name] = parameters;
        move_references(parameters, (is_list ? "/items/anyOf/" : "/anyOf/") + std::to_string(calls.size()) +
                                        "/properties/" + arguments);
        calls.push_back(call_of(name, arguments, std::move(parameters)));
    }
    schemas.calls = {{"anyOf", std::move(calls)}};
    if (is_list) {
        schemas.calls = {{"type", "array"}, {"minItems", 1}, {"items", std::move(schemas.calls)}};
        if (tools.one_call) schemas.calls["maxItems"] = 1;
    }
    return schemas;
}

std::map<std::string, std::string> texts_of(const std::map<std::string, json>& schemas) {
    std::map<std::string, std::string> texts;
    for (const auto& [name, schema] : schemas) texts[name] = schema.dump();
    return texts;
}

/// Says in which tool's schema the error is, and where.
[[noreturn]] void refuse_schemas(const Fields& fields, const CallSchemas& schemas, const Error& together) {
    for (const auto& [name, schema] : schemas.tools)
        if (const auto made = Constraint::json_schema(schema.dump()); !made)
            fields.refuse("tools", name + ": " + made.error().message);
    fields.refuse("tools", "together: " + together.message);
}

}  // namespace

ForcedCalls force_calls(const Fields& fields, const Tools& tools) {
    const CallSchemas schemas = schemas_of(fields, tools, {});
    if (tools.are_named) {
        const auto arguments = texts_of(schemas.tools);
        auto grammar = named_calls_grammar(arguments, tools.one_call);
        if (!grammar) refuse_schemas(fields, schemas, grammar.error());
        const std::string key = (tools.one_call ? "named call " : "named calls ") + json(arguments).dump();
        return {std::string(call_mark(tools.format)), ConstraintMaker::make(key, *std::move(grammar))};
    }
    auto constraint = Constraint::json_schema(schemas.calls.dump());
    if (!constraint) refuse_schemas(fields, schemas, constraint.error());
    std::string prefix;
    if (tools.format == CallFormat::tagged) prefix = "<tool_call>\n";
    if (tools.format == CallFormat::listed) prefix = "[TOOL_CALLS]";
    return {std::move(prefix), *std::move(constraint)};
}

Constraint strict_calls(const Fields& fields, const Tools& tools) {
    std::set<std::string> others;
    std::ranges::set_difference(tools.names, tools.strict, std::inserter(others, others.end()));
    const CallSchemas schemas = schemas_of(fields, tools, others);
    const std::map<std::string, std::string> arguments = texts_of(schemas.tools);
    const std::string calls = schemas.calls.dump();
    auto grammar = calls_grammar(tools.format, calls, arguments);
    if (!grammar) refuse_schemas(fields, schemas, grammar.error());
    const std::string format(call_mark(tools.format));
    return ConstraintMaker::make("calls " + format + " " + calls, *std::move(grammar));
}

}  // namespace vkformer::serve
