// SPDX-License-Identifier: MIT
#include "api/c/constraint.hpp"

#include <utility>
#include <vector>

#include "api/c/common.hpp"
#include "core/try.hpp"

using namespace vkformer;

namespace {

/// What `make`, one of Constraint's functions, makes of a text.
vkf_result constraint_of(const char* text, const char* name, Result<Constraint> (*make)(std::string_view),
                         vkf_constraint** constraint) {
    if (!constraint) return c::invalid("constraint is required");
    return c::guarded([&]() -> Result<void> {
        c::Arguments arguments;
        const std::string given = arguments.text(text, name);
        VKFORMER_CHECK(arguments.check());
        VKFORMER_TRY(auto made, make(given));
        *constraint = new vkf_constraint{std::move(made)};
        return {};
    });
}

}  // namespace

vkf_result vkf_constraint_json_schema(const char* schema, vkf_constraint** constraint) {
    return constraint_of(schema, "schema", &Constraint::json_schema, constraint);
}

vkf_result vkf_constraint_json(vkf_constraint** constraint) {
    return constraint_of(
        "", "", [](std::string_view) { return Constraint::json(); }, constraint);
}

vkf_result vkf_constraint_regex(const char* expression, vkf_constraint** constraint) {
    return constraint_of(expression, "expression", &Constraint::regex, constraint);
}

vkf_result vkf_constraint_choice(uint32_t count, const char* const* texts, vkf_constraint** constraint) {
    if (!constraint) return c::invalid("constraint is required");
    return c::guarded([&]() -> Result<void> {
        c::Arguments arguments;
        std::vector<std::string> choices;
        for (const char* const text : arguments.array(texts, count, "texts"))
            choices.push_back(arguments.text(text, "one of the texts"));
        VKFORMER_CHECK(arguments.check());
        VKFORMER_TRY(auto made, Constraint::choice(choices));
        *constraint = new vkf_constraint{std::move(made)};
        return {};
    });
}

void vkf_constraint_destroy(vkf_constraint* constraint) { delete constraint; }
