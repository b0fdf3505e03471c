// SPDX-License-Identifier: MIT
#include <regex>

#include "constraints/choice.hpp"
#include "constraints/grammar_case.hpp"
#include "constraints/regex.hpp"
#include "support/catch.h"
#include "support/refused.hpp"

namespace vkformer::tests {
namespace {

using constraints::regex_grammar;

/// All texts of up to `most` of the letters.
std::vector<std::string> all_texts(std::string_view letters, std::size_t most) {
    std::vector<std::string> texts = {""};
    for (std::size_t begin = 0, length = 0; length < most; ++length) {
        const std::size_t end = texts.size();
        for (; begin < end; ++begin)
            for (const char letter : letters) texts.push_back(texts[begin] + letter);
    }
    return texts;
}

TEST_CASE("expressions match what std::regex matches", "[constraints][regex]") {
    const std::string expression =
        GENERATE("a", "", "ab|a", "a*", "a+b?", "(a|b)*1", "a{2}", "a{0,2}b", "a{2,}", "(ab){1,2}", "[ab]+", "[^a]*",
                 ".+", "\\d+", "\\w*", "\\s?a", "\\D\\W", "(?:a|b1)+?", "(a*)*", "(a*b*)*1", "((a|ab)(b|))*",
                 "[a-b1]{3}", "a||b", "^a+$", "^a|b$", "(a|(b|(1| )))*", "(a{0,2}){2}b", "a{3}|b{3}", "(a?){4}",
                 "\\x61\\u0062", "[\\d ]+[^\\d ]", "a{0}b", "(){3}a", "[-a]+", "\\-|\\.");
    CAPTURE(expression);
    const std::regex reference(expression);
    constraints::Automaton automaton(must(regex_grammar(expression)));
    for (const std::string& text : all_texts("ab1 -", 5)) {
        CAPTURE(text);
        CHECK((fit_of(automaton, text) == Fit::whole) == std::regex_match(text, reference));
    }
}

TEST_CASE("a beginning that nothing can follow is none", "[constraints][regex]") {
    constraints::Automaton automaton(must(regex_grammar("ab([^\\s\\S]c|d)|x[^\\s\\S]y|xz")));
    CHECK(fit_of(automaton, "ab") == Fit::begins);
    CHECK(fit_of(automaton, "abd") == Fit::whole);
    CHECK(fit_of(automaton, "x") == Fit::begins);
    CHECK(fit_of(automaton, "xy") == Fit::no);
}

TEST_CASE("expressions know characters, not bytes", "[constraints][regex]") {
    struct Sample {
        std::string expression;
        std::vector<std::string> fit, other;
    };
    const Sample sample = GENERATE(values<Sample>({
        {".", {"a", "é", "€", "😀", "\x7F"}, {"\n", "", "ab", "\xC3", "\xE2\x82", "\xED\xA0\x80", "\xF5\x80\x80\x80"}},
        {"[à-ÿ]{2}", {"éé", "àÿ"}, {"é", "aé", "Āé"}},
        {"[^é]", {"è", "e", "€", "😀"}, {"é", "\xC3"}},
        {"[\\u0800-\\uFFFF]", {"\u0800", "\uFFFF", "\uD7FF", "\uE000"}, {"\u07FF", "😀"}},
        {"\\ud83d\\ude00|x", {"😀", "x"}, {"😁"}},
        {"[😀-😃]", {"😁"}, {"😄", "x"}},
        {"é+", {"é", "éé"}, {"e", "é\xC3"}},
    }));
    CAPTURE(sample.expression);
    constraints::Automaton automaton(must(regex_grammar(sample.expression)));
    for (const std::string& text : sample.fit) CHECK(fit_of(automaton, text) == Fit::whole);
    for (const std::string& text : sample.other) CHECK(fit_of(automaton, text) != Fit::whole);
}

TEST_CASE("expressions are refused by name", "[constraints][regex]") {
    const auto [expression, words] = GENERATE(table<std::string, std::string>({
        {"(?=a)", "(?="},
        {"(?!a)", "(?!"},
        {"(?<=a)b", "(?<"},
        {"(?i)a", "(?i"},
        {"(?>a)", "(?>"},
        {"(a)\\1", "\\1"},
        {"(?P<n>a)\\k<n>", "\\k"},
        {"(?P=n)", "(?P"},
        {"\\bword", "\\b"},
        {"\\p{L}", "\\p"},
        {"a\\Z", "\\Z"},
        {"a*+", "repetition of a repetition"},
        {"a**", "repetition of a repetition"},
        {"*a", "nothing to repeat"},
        {"a|*", "nothing to repeat"},
        {"{1}", "nothing to repeat"},
        {"a{", "{m,n}"},
        {"a{,3}", "{m,n}"},
        {"a{3,2}", "wrong order"},
        {"(a", "( without its )"},
        {"a)", ") without its ("},
        {"[a", "[ without its ]"},
        {"[a-", "[ without its ]"},
        {"[]", "nothing in it"},
        {"[z-a]", "range"},
        {"[\\d-z]", "range"},
        {"[[:alpha:]]", "class by name"},
        {"a\\", "backslash"},
        {"\\xZ1", "hexadecimal"},
        {"\\ud800", "surrogate"},
        {"\\012", "octal"},
        {"b^a", "^"},
        {"(^a)", "^"},
        {"a$b", "$"},
        {"(?<name", "no end"},
        {"\xFF", "UTF-8"},
        {"a{1,1000000}", "too large"},
        {"((a{1000}){1000}|b){70000}", "too large"},
        {"[^\\s\\S]", "no text"},
        {"a[^\\s\\S]b", "no text"},
    }));
    CAPTURE(expression);
    check_refused(regex_grammar(expression), ErrorCode::InvalidArgument, words);
}

TEST_CASE("hostile expressions are refused or stay small", "[constraints][regex]") {
    std::string nested;
    for (int i = 0; i < 100'000; ++i) nested += "(";
    check_refused(regex_grammar(nested), ErrorCode::InvalidArgument, "bytes");
    check_refused(regex_grammar(nested.substr(0, 60'000)), ErrorCode::InvalidArgument, "nested too deep");
    std::string wide;
    for (int i = 0; i < 9'000; ++i) wide += "[^a]|";
    check_refused(regex_grammar(wide), ErrorCode::InvalidArgument, "too large");
    // A text of a million letters in a thousand states, and one that can be read in very many ways.
    constraints::Automaton large(must(regex_grammar("(((a{100}){100}){100})?")));
    CHECK(fit_of(large, std::string(1'000'000, 'a')) == Fit::whole);
    CHECK(fit_of(large, std::string(999'999, 'a')) == Fit::begins);
    CHECK(fit_of(large, std::string(1'000'001, 'a')) == Fit::no);
    const auto ambiguous = std::make_shared<constraints::TokenConstraint>(must(regex_grammar("(a{0,3000}){0,3000}b")),
                                                                          words_and_bytes({std::string(64, 'a')}));
    constraints::ConstrainedText text(ambiguous);
    bool is_refused = false;
    for (int i = 0; i < 100 && !is_refused; ++i) {
        const auto allowed = text.allowed();
        is_refused = !allowed || !text.add('a');
        if (!allowed) CHECK_THAT(allowed.error().message, Catch::Matchers::ContainsSubstring("ambiguous"));
    }
    CHECK(is_refused);
}

TEST_CASE("a choice is one of its texts", "[constraints]") {
    const std::vector<std::string> texts = {"yes", "no", "not at all", "no", "ja 😀"};
    constraints::Automaton automaton(must(constraints::choice_grammar(texts)));
    for (const std::string& text : texts) CHECK(fit_of(automaton, text) == Fit::whole);
    CHECK(fit_of(automaton, "not") == Fit::begins);
    CHECK(fit_of(automaton, "yesno") == Fit::no);
    CHECK(fit_of(automaton, "") == Fit::begins);
    check_refused(constraints::choice_grammar({}), ErrorCode::InvalidArgument, "no texts");
    check_refused(constraints::choice_grammar(std::vector<std::string>{"a", ""}), ErrorCode::InvalidArgument, "empty");
    check_refused(constraints::choice_grammar(std::vector<std::string>{"\xFF"}), ErrorCode::InvalidArgument, "UTF-8");
    check_refused(constraints::choice_grammar(std::vector<std::string>{std::string(100'000, 'x')}),
                  ErrorCode::InvalidArgument, "too large");
}

}  // namespace
}  // namespace vkformer::tests
