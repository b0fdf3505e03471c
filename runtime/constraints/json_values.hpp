// SPDX-License-Identifier: MIT
/// JSON's values as rules (RFC 8259): in a spelling that every reader takes, with numbers that a double and a signed 64-bit integer hold.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "constraints/grammar.hpp"

namespace vkformer::constraints {

/// A number in decimal digits.
struct Decimal {
    bool is_negative = false;
    std::string whole;     ///< without zeros at the front: empty for 0
    std::string fraction;  ///< without zeros at the end
};
struct NumberRange {
    std::optional<Decimal> least, most;
    bool is_above = false, is_below = false;  ///< the bound itself is outside
};

/// Adds them to a grammar, each when it is first asked for.
class JsonValues {
public:
    static constexpr std::size_t kMostDigits = 18;  ///< before a point; and behind it at most one less

    explicit JsonValues(GrammarBuilder& builder) : builder_(builder) {}

    RuleId space();      ///< between tokens: nothing, one space, or one or two line ends with an indentation
    RuleId character();  ///< one of a string
    RuleId string();
    RuleId number();
    RuleId integer();
    RuleId object();  ///< any
    RuleId any();

    StateId spaced(StateId from, std::string_view text) { return builder_.call(builder_.literal(from, text), space()); }
    StateId in_range(StateId from, const NumberRange& range, bool is_integer);
    /// A string that is none of the names; the texts behind go on from `to`. Nothing in it is escaped, and it is not empty.
    void other_string(StateId from, std::vector<std::string_view> names, StateId to);

private:
    enum Which : std::size_t { kSpace, kCharacter, kString, kNumber, kInteger, kObject, kAny, kCount };
    struct Magnitudes;
    /// Whether the rule is new and has to be filled.
    bool is_new(Which which);
    RuleId of(Which which) const { return *rules_[which]; }
    GrammarBuilder::Rule ends_of(Which which) const { return builder_.rule(of(which)); }
    StateId digits(StateId from, std::size_t least, std::size_t most);
    StateId whole_number(StateId from);

    GrammarBuilder& builder_;
    std::array<std::optional<RuleId>, kCount> rules_;
};

}  // namespace vkformer::constraints
