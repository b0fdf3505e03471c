// SPDX-License-Identifier: MIT
#include "serve/constraint_fields.hpp"

#include <string>

#include "serve/refusal.hpp"

namespace vkformer::serve {
namespace {

using nlohmann::json;

constexpr std::size_t kMostTexts = 10'000;

/// A field that has a schema, or the text of one.
struct Schema {
    Fields& fields;
    std::string_view name;
    const Request& request;
    std::initializer_list<std::string_view> path;  // of the fields that lead to `fields`

    std::string text() const {
        const json& given = fields.needed(name);
        if (given.is_string()) return given.get<std::string>();
        // The body has been read, but with the members of objects in the order of the alphabet.
        const auto body = nlohmann::ordered_json::parse(request.body, nullptr, false);
        const nlohmann::ordered_json* found = &body;
        for (const std::string_view field : path) found = &found->at(field);
        return found->at(name).dump();
    }
    Constraint constraint() const { return value_of(fields, name, Constraint::json_schema(text())); }

    static Constraint value_of(const Fields& fields, std::string_view name, Result<Constraint> made) {
        if (!made) fields.refuse(name, made.error().message);
        return *std::move(made);
    }
};

Constraint regex_of(Fields& fields, std::string_view name) {
    return Schema::value_of(fields, name, Constraint::regex(fields.needed_text(name)));
}

Constraint choice_of(Fields& fields, std::string_view name) {
    return Schema::value_of(fields, name, Constraint::choice(fields.texts(name, kMostTexts)));
}

Constraint any_json(const Fields& fields, std::string_view name) {
    return Schema::value_of(fields, name, Constraint::json());
}

std::optional<Constraint> read_response_format(Fields& fields, const Request& request) {
    const json* const given = fields.take("response_format");
    if (!given) return {};
    Fields format(*given, "response_format");
    const std::string type = format.needed_text("type");
    std::optional<Constraint> made;
    if (type == "json_schema") {
        Fields schema(format.needed("json_schema"), "response_format.json_schema");
        schema.pass_over({"name", "description", "strict"});
        made = Schema{schema, "schema", request, {"response_format", "json_schema"}}.constraint();
        schema.finish();
    } else if (type == "json_object") {
        made = any_json(format, "type");
    } else if (type != "text") {
        format.refuse("type", "it is none of text, json_object, json_schema");
    }
    format.finish();
    return made;
}

std::optional<Constraint> read_structured_outputs(Fields& fields, const Request& request) {
    const json* const given = fields.take("structured_outputs");
    if (!given) return {};
    Fields asked(*given, "structured_outputs");
    std::optional<Constraint> made;
    const auto set = [&](std::string_view name, Constraint constraint) {
        if (made) asked.refuse(name, "there is another constraint beside it");
        made = std::move(constraint);
    };
    if (asked.has("json")) set("json", Schema{asked, "json", request, {"structured_outputs"}}.constraint());
    if (asked.has("regex")) set("regex", regex_of(asked, "regex"));
    if (asked.has("choice")) set("choice", choice_of(asked, "choice"));
    if (asked.boolean("json_object").value_or(false)) set("json_object", any_json(asked, "json_object"));
    asked.finish();
    return made;
}

}  // namespace

std::optional<Constraint> read_constraint(Fields& fields, const Request& request) {
    std::optional<Constraint> made = read_response_format(fields, request);
    const auto set = [&](std::string_view name, std::optional<Constraint> constraint) {
        if (made && constraint) fields.refuse(name, "there is another constraint beside it");
        if (constraint) made = std::move(constraint);
    };
    set("structured_outputs", read_structured_outputs(fields, request));
    if (fields.has("guided_json")) set("guided_json", Schema{fields, "guided_json", request, {}}.constraint());
    if (fields.has("guided_regex")) set("guided_regex", regex_of(fields, "guided_regex"));
    if (fields.has("guided_choice")) set("guided_choice", choice_of(fields, "guided_choice"));
    return made;
}

std::optional<Constraint> read_flat_format(Fields& format, const Request& request,
                                           std::initializer_list<std::string_view> path) {
    const std::string type = format.needed_text("type");
    std::optional<Constraint> made;
    if (type == "json_schema") {
        format.pass_over({"name", "description", "strict"});
        made = Schema{format, "schema", request, path}.constraint();
    } else if (type == "json_object") {
        made = any_json(format, "type");
    } else if (type != "text") {
        format.refuse("type", "it is none of text, json_object, json_schema");
    }
    format.finish();
    return made;
}

}  // namespace vkformer::serve
