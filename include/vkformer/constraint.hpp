// SPDX-License-Identifier: MIT
/// What a generated text has to be, whatever the model would rather write.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "vkformer/export.h"
#include "vkformer/result.hpp"

namespace vkformer {

/// A value, cheap to copy. Errors of all four: InvalidArgument, which says what is wrong or not supported, and where. Whatever the text
/// that one is made of, it takes bounded time and memory; what is too large is refused.
class VKFORMER_API Constraint {
public:
    /// A JSON value that a schema accepts, of draft 2020-12 or an older one: type, enum, const, properties, required, additionalProperties,
    /// minProperties, maxProperties, items, prefixItems, minItems, maxItems, minLength, maxLength, pattern, format, minimum, maximum,
    /// exclusiveMinimum, exclusiveMaximum, anyOf, oneOf of what excludes each other, allOf, $ref within the schema, recursion included. A
    /// keyword that would change what is valid and is none of these is refused by name. Members come in the schema's order; those that it
    /// does not name come only where it says additionalProperties or names none at all.
    static Result<Constraint> json_schema(std::string_view schema);
    /// Any JSON object.
    static Result<Constraint> json();
    /// A text that the expression matches as a whole: literals, classes, groups, alternatives, repetitions, in the syntax that JavaScript
    /// and Python have in common. Refused are look-around, references to groups, word boundaries and properties of characters.
    static Result<Constraint> regex(std::string_view expression);
    /// One of the texts, none of which is empty.
    static Result<Constraint> choice(std::span<const std::string> texts);

    struct Impl;
    /// For the library itself, which alone knows what Impl is.
    const Impl& impl() const noexcept { return *impl_; }

private:
    friend struct ConstraintMaker;  // the library's own
    explicit Constraint(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}

    std::shared_ptr<const Impl> impl_;
};

}  // namespace vkformer
