// SPDX-License-Identifier: MIT
#include "serve/constraint_fields.hpp"

#include <string>

#include "serve/refusal.hpp"

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kMostTexts = 10'000;

Constraint value_of(const Fields& fields, std::string_view name, Result<Constraint> made) {
    if (!made) fields.refuse(name, made.error().message);
    return *std::move(made);
}

/// Of a schema, or the text of one.
Constraint schema_of(Fields& fields, std::string_view name) {
    const json& given = fields.needed(name);
    return value_of(fields, name, Constraint::json_schema(given.is_string() ? given.get<std::string>() : given.dump()));
}

Constraint regex_of(Fields& fields, std::string_view name) {
    return value_of(fields, name, Constraint::regex(fields.needed_text(name)));
}

Constraint choice_of(Fields& fields, std::string_view name) {
    return value_of(fields, name, Constraint::choice(fields.texts(name, kMostTexts)));
}

Constraint any_json(const Fields& fields, std::string_view name) { return value_of(fields, name, Constraint::json()); }

}  // namespace

std::optional<Constraint> read_format(Fields& fields, std::string_view name, bool is_flat) {
    const json* const given = fields.take(name);
    if (!given) return {};
    Fields format(*given, fields.name_of(name));
    const std::string type = format.needed_text("type");
    std::optional<Constraint> made;
    const auto read_schema = [&](Fields& schema) {
        schema.pass_over({"name", "description", "strict"});
        made = schema_of(schema, "schema");
        schema.finish();
    };
    if (type == "json_schema" && is_flat) {
        read_schema(format);
    } else if (type == "json_schema") {
        Fields schema(format.needed("json_schema"), format.name_of("json_schema"));
        read_schema(schema);
    } else if (type == "json_object") {
        made = any_json(format, "type");
    } else if (type != "text") {
        format.refuse("type", "it is none of text, json_object, json_schema");
    }
    format.finish();
    return made;
}

namespace {

std::optional<Constraint> read_structured_outputs(Fields& fields) {
    const json* const given = fields.take("structured_outputs");
    if (!given) return {};
    Fields asked(*given, "structured_outputs");
    std::optional<Constraint> made;
    const auto set = [&](std::string_view name, Constraint constraint) {
        if (made) asked.refuse(name, "there is another constraint beside it");
        made = std::move(constraint);
    };
    if (asked.has("json")) set("json", schema_of(asked, "json"));
    if (asked.has("regex")) set("regex", regex_of(asked, "regex"));
    if (asked.has("choice")) set("choice", choice_of(asked, "choice"));
    if (asked.boolean("json_object").value_or(false)) set("json_object", any_json(asked, "json_object"));
    asked.finish();
    return made;
}

}  // namespace

std::optional<Constraint> read_constraint(Fields& fields) {
    std::optional<Constraint> made = read_format(fields, "response_format", false);
    const auto set = [&](std::string_view name, std::optional<Constraint> constraint) {
        if (made && constraint) fields.refuse(name, "there is another constraint beside it");
        if (constraint) made = std::move(constraint);
    };
    set("structured_outputs", read_structured_outputs(fields));
    if (fields.has("guided_json")) set("guided_json", schema_of(fields, "guided_json"));
    if (fields.has("guided_regex")) set("guided_regex", regex_of(fields, "guided_regex"));
    if (fields.has("guided_choice")) set("guided_choice", choice_of(fields, "guided_choice"));
    return made;
}

}  // namespace vkformer::serve
