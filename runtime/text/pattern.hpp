// SPDX-License-Identifier: MIT
/// The patterns of tokenizer.json: literal texts and regular expressions.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_field.hpp"
#include "vkformer/result.hpp"

struct pcre2_real_code_8;

namespace vkformer::text {

/// A stretch of a text, and whether the pattern matched it.
struct Span {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool is_match = false;
};

/// Expressions are written for Oniguruma (Ruby's syntax) and run by PCRE2. What the two understand differently is
/// translated, or refused by name. Immutable; may be used from several threads.
class Pattern {
public:
    /// The field holds {"String": …} or {"Regex": …}. Errors: CorruptFile, UnsupportedConfig.
    static Result<Pattern> read(const Field& field);
    /// A text that is not empty.
    static Result<Pattern> literal(std::string text, const Field& field);
    static Result<Pattern> regex(std::string_view expression, const Field& field);

    /// The whole text in spans, in order, without holes. Errors: InvalidArgument where the expression takes too long on this
    /// text.
    Result<std::vector<Span>> find_all(std::string_view text) const;

private:
    Pattern() = default;

    std::string literal_;
    std::shared_ptr<pcre2_real_code_8> code_;  // nullptr: the literal
};

/// The spans of the characters that have a property, one for each, and of what lies between them.
std::vector<Span> find_characters(std::string_view text, bool (*matches)(char32_t));

/// What becomes of the stretches that matched.
enum class SplitBehavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };
Result<SplitBehavior> read_split_behavior(const Field& field);
/// The pieces to keep, in order; some may be empty.
std::vector<Span> split(std::vector<Span> spans, SplitBehavior behavior);

}  // namespace vkformer::text
