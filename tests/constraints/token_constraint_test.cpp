// SPDX-License-Identifier: MIT
#include "constraints/token_constraint.hpp"

#include <thread>

#include "constraints/grammar_case.hpp"
#include "constraints/json_schema.hpp"
#include "constraints/regex.hpp"
#include "support/catch.h"
#include "support/goldens.hpp"
#include "support/refused.hpp"
#include "text/tokenizer.hpp"

namespace vkformer::tests {
namespace {

using constraints::ConstrainedText;
using constraints::TokenConstraint;

std::shared_ptr<TokenConstraint> constraint_of(const std::string& expression,
                                               std::shared_ptr<const constraints::Vocabulary> vocabulary) {
    return std::make_shared<TokenConstraint>(must(constraints::regex_grammar(expression)), std::move(vocabulary));
}

TEST_CASE("the allowed tokens are those that each alone leads on", "[constraints]") {
    const auto vocabulary =
        words_and_bytes({"a", "ab", "abc", "b", "ba", "\xC3", "\xA9", "é", "éa", "", "aé", std::string(2000, 'a')});
    const std::string expression = GENERATE("(ab|é)+c?", "[^b]*", "a{3,5}", "ab", ".*é");
    CAPTURE(expression);
    const auto grammar = must(constraints::regex_grammar(expression));
    const auto constraint = std::make_shared<TokenConstraint>(grammar, vocabulary);
    std::mt19937 random(3);
    for (int run = 0; run < 20; ++run) {
        ConstrainedText text(constraint);
        std::string made;
        for (int i = 0; i < 12; ++i) {
            const auto allowed = must(text.allowed());
            std::vector<std::int32_t> onward;
            constraints::Automaton automaton(grammar);
            for (std::int32_t token = 0; static_cast<std::size_t>(token) < vocabulary->size(); ++token) {
                const std::string bytes(vocabulary->bytes(token));
                CAPTURE(made, bytes);
                const bool is_end = vocabulary->is_end(token);
                const bool fits =
                    is_end ? fit_of(automaton, made) == Fit::whole
                           : !bytes.empty() && bytes.size() < 1000 && fit_of(automaton, made + bytes) != Fit::no;
                CHECK(allows(*allowed, token) == fits);
                if (fits && !is_end) onward.push_back(token);
            }
            CHECK(allowed->may_go_on == !onward.empty());
            if (onward.empty()) break;
            const std::int32_t token = onward[random() % onward.size()];
            if (run % 2 == 0) text.look_ahead();
            must(text.add(token));
            made += vocabulary->bytes(token);
        }
    }
}

TEST_CASE("a token that does not follow is refused, and an end only where the text is whole", "[constraints]") {
    const auto constraint = constraint_of("ab?", words_and_bytes({}));
    const std::int32_t end = 256;
    ConstrainedText text(constraint);
    check_refused(text.add('b'), ErrorCode::InvalidArgument, "token 98");
    check_refused(text.add(end), ErrorCode::InvalidArgument, "token 256");
    check_refused(text.add(1'000'000), ErrorCode::InvalidArgument, "does not allow");
    check_refused(text.add(-1), ErrorCode::InvalidArgument, "does not allow");
    must(text.add('a'));
    CHECK(must(text.allowed())->may_end);
    must(text.add(end));
    must(text.add('b'));
    const auto allowed = must(text.allowed());
    CHECK((allowed->may_end && !allowed->may_go_on));
}

TEST_CASE("a vocabulary that cannot go on is told", "[constraints]") {
    text::TokenTexts texts = {.bytes = {"a", "b", ""}};
    const auto vocabulary = std::make_shared<const constraints::Vocabulary>(texts, std::vector{2}, 3);
    ConstrainedText text(constraint_of("ac", vocabulary));
    must(text.allowed());
    must(text.add(0));
    check_refused(text.allowed(), ErrorCode::InvalidArgument, "no token");
}

TEST_CASE("a space that the first token drops is none", "[constraints]") {
    const std::vector<std::string> words = {" yes", " no", "yes", " ", "  yes"};
    const std::int32_t spaced_yes = 256, plain_yes = 258, space = ' ', two_spaces = 260;
    const auto vocabulary = words_and_bytes(words, true);
    const auto constraint = constraint_of("yes| yes", vocabulary);
    {
        ConstrainedText text(constraint);
        const auto allowed = must(text.allowed());
        CHECK((allows(*allowed, spaced_yes) && allows(*allowed, plain_yes) && allows(*allowed, space)));
        CHECK((allows(*allowed, two_spaces) && !allows(*allowed, 257)));
        must(text.add(spaced_yes));
        CHECK_FALSE(must(text.allowed())->may_go_on);
    }
    for (const auto& [tokens, expected] :
         std::vector<std::pair<std::vector<std::int32_t>, std::string>>{{{spaced_yes}, "yes"},
                                                                        {{plain_yes}, "yes"},
                                                                        {{space, spaced_yes}, " yes"},
                                                                        {{two_spaces}, " yes"},
                                                                        {{space, plain_yes}, "yes"}}) {
        ConstrainedText text(constraint);
        const auto stream = constraints::stream(vocabulary);
        std::string made;
        for (const std::int32_t token : tokens) {
            must(text.add(token));
            made += stream->push(token);
        }
        CHECK(must(text.allowed())->may_end);
        CHECK(made + stream->finish() == expected);
    }
    ConstrainedText only_spaced(constraint_of(" yes", vocabulary));
    CHECK_FALSE(allows(*must(only_spaced.allowed()), spaced_yes));
    CHECK(allows(*must(only_spaced.allowed()), two_spaces));
}

TEST_CASE("streams of bytes give whole characters", "[constraints]") {
    const auto stream = constraints::stream(words_and_bytes({}));
    CHECK(stream->push(0xC3).empty());
    CHECK(stream->push(0xA9) == "é");
    CHECK(stream->push('a') == "a");
    CHECK(stream->push(0xE2).empty());
    CHECK(stream->finish() == "\uFFFD");
}

TEST_CASE("a special token follows where a grammar has its mark", "[constraints]") {
    text::TokenTexts texts = {.bytes = {"a", "<s>", "<t>", "\xFF", "s", "<end>"}, .special = {1, 2}};
    const auto vocabulary = std::make_shared<const constraints::Vocabulary>(texts, std::vector{5}, texts.bytes.size());
    const auto allowed_at_first = [&](GrammarPtr grammar) {
        ConstrainedText text(std::make_shared<TokenConstraint>(std::move(grammar), vocabulary));
        return tokens_of(*must(text.allowed()), vocabulary->size());
    };
    CHECK(allowed_at_first(must(constraints::regex_grammar("[^b]+"))) == std::vector{0, 4});
    constraints::GrammarBuilder builder;
    const auto root = builder.add_rule();
    builder.empty(builder.one_of(builder.rule(root).begin, {"a", constraints::kSpecialByte + std::string("<s>")}),
                  builder.rule(root).end);
    CHECK(allowed_at_first(must(builder.finish(root))) == std::vector{0, 1});
    for (const bool shows : {false, true}) {
        const auto stream = constraints::stream(vocabulary, shows);
        std::string made;
        for (const std::int32_t token : {0, 2, 3}) made += stream->push(token);
        CHECK(made + stream->finish() == (shows ? "a<t>\uFFFD" : "a\uFFFD"));
    }
}

TEST_CASE("places are forgotten while texts are under way", "[constraints]") {
    // More places than are kept: each of the letters has its own.
    const auto constraint = constraint_of("[ab]{30000}c", words_and_bytes({"aaaaaaaaaaaaaaaaaaaa"}));
    ConstrainedText slow(constraint), fast(constraint);
    must(slow.add('a'));
    for (int i = 0; i < 1500; ++i) {
        must(fast.allowed());
        must(fast.add(256));
    }
    for (int i = 1; i < 30'000; ++i) {
        REQUIRE(allows(*must(slow.allowed()), 'b'));
        REQUIRE_FALSE(allows(*must(slow.allowed()), 'c'));
        must(slow.add('b'));
    }
    for (ConstrainedText* const text : {&slow, &fast}) {
        const auto allowed = must(text->allowed());
        CHECK((allows(*allowed, 'c') && !allows(*allowed, 'b')));
    }
}

TEST_CASE("what all texts lead to from a place is forgotten with it", "[constraints]") {
    // Five characters and a b, again and again: more places than are kept, which have other numbers then.
    constexpr int kTimes = 3500;
    const auto constraint = constraint_of("(.{5}b){3500}", words_and_bytes({"aa", "aaa", "aaaa", "aaaaa", "aaaaaa"}));
    ConstrainedText text(constraint);
    for (int i = 0; i < 6 * kTimes; ++i) {
        const int left = 5 - i % 6;
        const auto allowed = must(text.allowed());
        CAPTURE(i);
        REQUIRE(allows(*allowed, 'a') == (left > 0));
        for (int length = 2; length <= 6; ++length) REQUIRE(allows(*allowed, 254 + length) == (length <= left));
        must(text.add(left > 0 ? 'a' : 'b'));
    }
}

TEST_CASE("every tokenizer's texts fit as its tokens", "[constraints]") {
    const std::string folder =
        GENERATE("decoder_text", "tokenizers/bpe-bytes", "tokenizers/bpe-pieces", "tokenizers/unigram");
    CAPTURE(folder);
    const auto tokenizer = must(text::load_tokenizer(goldens_dir() / folder));
    const auto texts = must(tokenizer->token_texts());
    const auto vocabulary =
        std::make_shared<const constraints::Vocabulary>(texts, std::vector<std::int32_t>{}, tokenizer->vocab_size());
    const auto constraint = constraint_of(".*", vocabulary);
    for (const std::string line : {"the small frog", "a cat and a dog", "the end"}) {
        CAPTURE(line);
        const auto tokens = must(tokenizer->encode(line, {.add_special = false}));
        const auto stream = constraints::stream(vocabulary);
        ConstrainedText text(constraint);
        std::string made;
        for (const std::int32_t token : tokens) {
            CAPTURE(token, tokenizer->piece(token));
            REQUIRE(text.add(token));
            made += stream->push(token);
        }
        CHECK(made + stream->finish() == tokenizer->decode(tokens));
    }
}

TEST_CASE("tokens that depend on their neighbours have no texts", "[constraints]") {
    const std::string folder = GENERATE("tokenizers/unigram-bytes", "tokenizers/bpe-words", "tokenizers/marian");
    CAPTURE(folder);
    const auto tokenizer = must(text::load_tokenizer(goldens_dir() / folder));
    CHECK_FALSE(message_of(tokenizer->token_texts(), ErrorCode::UnsupportedConfig).empty());
}

TEST_CASE("one constraint serves several threads", "[constraints][threads]") {
    const auto constraint =
        std::make_shared<TokenConstraint>(must(constraints::json_object_grammar()), words_and_bytes({"\":", "{\""}));
    std::vector<std::thread> threads;
    for (unsigned seed = 0; seed < 4; ++seed)
        threads.emplace_back([&, seed] {
            std::mt19937 random(seed);
            for (int i = 0; i < 20; ++i) {
                ConstrainedText text(constraint);
                for (int k = 0; k < 60; ++k) {
                    const auto allowed = text.allowed();
                    if (!allowed || !(*allowed)->may_go_on) break;
                    text.look_ahead();
                    const auto tokens = tokens_of(**allowed, constraint->vocabulary()->size());
                    if (const auto token = tokens[random() % tokens.size()]; token == 258 || !text.add(token)) break;
                }
            }
        });
    for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace vkformer::tests
