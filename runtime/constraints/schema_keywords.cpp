// SPDX-License-Identifier: MIT
#include "constraints/schema_keywords.hpp"

namespace vkformer::constraints {
namespace {

constexpr Keyword kKeywords[] = {
    {"$comment", Subject::nothing},
    {"$defs", Subject::nothing},
    {"$id", Subject::nothing},
    {"$schema", Subject::nothing},
    {"default", Subject::nothing},
    {"definitions", Subject::nothing},
    {"deprecated", Subject::nothing},
    {"description", Subject::nothing},
    {"discriminator", Subject::nothing},
    {"example", Subject::nothing},
    {"examples", Subject::nothing},
    {"readOnly", Subject::nothing},
    {"title", Subject::nothing},
    {"writeOnly", Subject::nothing},
    {"$ref", Subject::schema},
    {"allOf", Subject::schema},
    {"anyOf", Subject::schema},
    {"const", Subject::schema},
    {"enum", Subject::schema},
    {"oneOf", Subject::schema},
    {"type", Subject::schema},
    {"format", Subject::string},
    {"maxLength", Subject::string},
    {"minLength", Subject::string},
    {"pattern", Subject::string},
    {"exclusiveMaximum", Subject::number},
    {"exclusiveMinimum", Subject::number},
    {"maximum", Subject::number},
    {"minimum", Subject::number},
    {"items", Subject::array},
    {"maxItems", Subject::array},
    {"minItems", Subject::array},
    {"prefixItems", Subject::array},
    {"uniqueItems", Subject::array},
    {"additionalProperties", Subject::object},
    {"maxProperties", Subject::object},
    {"minProperties", Subject::object},
    {"properties", Subject::object},
    {"required", Subject::object},
};

}  // namespace

const Keyword* find_keyword(std::string_view name) {
    const auto found = std::ranges::find(kKeywords, name, &Keyword::name);
    if (found != std::end(kKeywords)) return found;
    static constexpr Keyword kExtension = {"x-", Subject::nothing};
    return name.starts_with("x-") ? &kExtension : nullptr;
}

}  // namespace vkformer::constraints
