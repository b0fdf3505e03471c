// SPDX-License-Identifier: MIT
#include "serve/calls_grammar.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

#include "constraints/json_schema.hpp"
#include "constraints/vocabulary.hpp"
#include "core/try.hpp"

namespace vkformer::serve {
namespace {

using constraints::GrammarBuilder;
using constraints::RuleId;
using constraints::StateId;

constexpr StateId kNoState = constraints::Grammar::kNowhere;

/// How much of the mark a text ends with, of which `matched` bytes and then this one were read (Knuth, Morris and Pratt 1977).
std::size_t matched_behind(std::string_view mark, std::size_t matched, char byte) {
    const std::string text = std::string(mark.substr(0, matched)) + byte;
    std::size_t size = text.size();
    while (!text.ends_with(mark.substr(0, size))) --size;
    return size;
}

/// Adds where each byte leads, if anywhere, in ranges.
template <class Target>
void add_bytes(GrammarBuilder& builder, StateId from, Target target) {
    unsigned first = 0;
    for (unsigned last = 0; last <= 0xFF; ++last) {
        const StateId to = target(static_cast<char>(last));
        if (last < 0xFF && target(static_cast<char>(last + 1)) == to) continue;
        if (to != kNoState) builder.bytes(from, static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last), to);
        first = last + 1;
    }
}

/// As models put them around a call.
StateId add_blanks(GrammarBuilder& builder, StateId from) { return builder.one_of(from, {"", " ", "\n", "\n\n"}); }

/// A token's text, whether it is a special one or spelled; `may_lack`: or nothing.
StateId add_token(GrammarBuilder& builder, StateId from, const std::string& text, bool may_lack = false) {
    std::vector<std::string> spellings = {text, constraints::kSpecialByte + text};
    if (may_lack) spellings.emplace_back();
    return builder.one_of(from, std::move(spellings));
}

/// [CALL_ID] and nine letters or digits, as Mistral's models number calls.
StateId add_id(GrammarBuilder& builder, StateId from) {
    StateId at = add_token(builder, from, "[CALL_ID]");
    for (int i = 0; i < 9; ++i) {
        const StateId next = builder.state();
        for (const auto& [first, last] : {std::pair{'0', '9'}, {'A', 'Z'}, {'a', 'z'}})
            builder.bytes(at, static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last), next);
        at = next;
    }
    return at;
}

/// Any bytes up to a mark. A special token begins with a byte that is not the mark's, so that one that is the mark ends the text, too.
struct FreeText {
    std::string_view mark;
    std::vector<StateId> matched;  // by how much of the mark was read; the last: all

    /// It may also end anywhere, at `end`.
    FreeText(GrammarBuilder& builder, std::string_view of_mark, StateId end) : mark(of_mark) {
        for (std::size_t i = 0; i <= mark.size(); ++i) matched.push_back(builder.state());
        for (std::size_t i = 0; i < mark.size(); ++i) {
            builder.empty(matched[i], end);
            add_bytes(builder, matched[i], [&](char byte) { return behind(i, byte); });
        }
    }
    StateId behind(std::size_t read, char byte) const { return matched[matched_behind(mark, read, byte)]; }
    StateId begin() const { return matched.front(); }
    StateId end() const { return matched.back(); }
};

/// Calls as a whole answer: behind the mark, or at once. An answer that begins with a brace is one.
void add_bare(GrammarBuilder& builder, RuleId answer, RuleId call, const FreeText& text) {
    const auto [begin, end] = builder.rule(answer);
    const StateId calls = builder.state(), behind = builder.call(calls, call);
    builder.empty(behind, end);
    builder.empty(builder.one_of(behind, {";", "; ", ";\n"}), calls);
    builder.empty(add_blanks(builder, text.end()), calls);
    const StateId blanks = builder.state();
    builder.empty(begin, blanks);
    builder.empty(blanks, calls);
    builder.empty(blanks, end);
    add_bytes(builder, blanks, [&](char byte) {
        if (byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r') return blanks;
        return byte == '{' ? kNoState : text.behind(0, byte);
    });
}

/// name[CALL_ID]id[ARGS]{…}, the id with its mark or none; `may_lack`: the last mark too.
Result<void> add_named(GrammarBuilder& builder, StateId from, StateId to,
                       const std::map<std::string, std::string>& arguments, bool may_lack) {
    for (const auto& [name, schema] : arguments) {
        VKFORMER_TRY(const auto object, constraints::json_schema_grammar(schema));
        const StateId spelt = builder.literal(from, name), identified = add_id(builder, spelt);
        builder.empty(spelt, identified);
        const StateId named = add_token(builder, identified, "[ARGS]", may_lack);
        builder.empty(builder.call(builder.one_of(named, {"", " "}), builder.add(*object)), to);
    }
    return {};
}

}  // namespace

Result<std::shared_ptr<const constraints::Grammar>> calls_grammar(CallFormat format, const std::string& calls,
                                                                  const std::map<std::string, std::string>& arguments) {
    VKFORMER_TRY(const auto schema, constraints::json_schema_grammar(calls));
    GrammarBuilder builder;
    const RuleId answer = builder.add_rule(), call = builder.add(*schema);
    const FreeText text(builder, call_mark(format), builder.rule(answer).end);
    if (format == CallFormat::bare) {
        add_bare(builder, answer, call, text);
        return builder.finish(answer);
    }
    builder.empty(builder.rule(answer).begin, text.begin());
    const StateId marked = add_blanks(builder, text.end());
    StateId behind = builder.call(marked, call);
    if (format == CallFormat::tagged) behind = add_token(builder, add_blanks(builder, behind), "</tool_call>");
    builder.empty(behind, text.begin());
    if (format == CallFormat::listed) VKFORMER_CHECK(add_named(builder, marked, text.begin(), arguments, true));
    return builder.finish(answer);
}

Result<std::shared_ptr<const constraints::Grammar>> named_calls_grammar(
    const std::map<std::string, std::string>& arguments, bool one_call) {
    GrammarBuilder builder;
    const RuleId answer = builder.add_rule();
    const auto [begin, end] = builder.rule(answer);
    const StateId call = builder.state(), behind = builder.state();
    builder.empty(begin, call);
    VKFORMER_CHECK(add_named(builder, call, behind, arguments, false));
    builder.empty(behind, end);
    if (!one_call) builder.empty(add_token(builder, behind, std::string(call_mark(CallFormat::listed))), call);
    return builder.finish(answer);
}

}  // namespace vkformer::serve
