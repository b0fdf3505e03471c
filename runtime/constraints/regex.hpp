// SPDX-License-Identifier: MIT
/// Regular expressions, as far as they are what the name says: literals, classes, groups, alternatives and repetitions, in the syntax
/// that JavaScript's and Python's have in common. \d, \w and \s are ASCII's.
#pragma once

#include <memory>
#include <string_view>

#include "constraints/grammar.hpp"

namespace vkformer::constraints {

struct RegexUse {
    bool in_json = false;  ///< the text is spelled as in a JSON string, without its quotes
    /// With both, the text has only to contain a match: a rule of one character of what may stand around it.
    bool searches = false;
    RuleId character = 0;
};
/// Adds the texts that the whole of `expression` matches. Errors: InvalidArgument (not an expression; what is not supported, by name).
Result<StateId> add_regex(GrammarBuilder& builder, StateId from, std::string_view expression, const RegexUse& use = {});

/// Texts that the expression matches as a whole. Errors likewise; InvalidArgument also where it is too large.
Result<std::shared_ptr<const Grammar>> regex_grammar(std::string_view expression);

/// One character of a JSON string in every spelling.
void add_json_character(GrammarBuilder& builder, StateId from, StateId to);

}  // namespace vkformer::constraints
