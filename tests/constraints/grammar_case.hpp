// SPDX-License-Identifier: MIT
/// Grammars walked byte by byte, and vocabularies that are known by heart.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constraints/automaton.hpp"
#include "constraints/token_constraint.hpp"
#include "support/must.hpp"

namespace vkformer::tests {

using GrammarPtr = std::shared_ptr<const constraints::Grammar>;

enum class Fit { no, begins, whole };

/// What a text is to a grammar.
inline Fit fit_of(constraints::Automaton& automaton, std::string_view text) {
    auto position = automaton.begin();
    for (const char c : text) position = automaton.step(position, static_cast<std::uint8_t>(c));
    if (position == constraints::Automaton::kNowhere) return Fit::no;
    return automaton.may_end(position) ? Fit::whole : Fit::begins;
}
inline bool accepts(const GrammarPtr& grammar, std::string_view text) {
    constraints::Automaton automaton(grammar);
    return fit_of(automaton, text) == Fit::whole;
}

/// All bytes, some words, and an end: the token behind them.
inline std::shared_ptr<const constraints::Vocabulary> words_and_bytes(std::vector<std::string> words,
                                                                      bool drops_first_space = false) {
    text::TokenTexts texts = {.bytes = {}, .drops_first_space = drops_first_space};
    for (int byte = 0; byte < 256; ++byte) texts.bytes.emplace_back(1, static_cast<char>(byte));
    for (std::string& word : words) texts.bytes.push_back(std::move(word));
    texts.bytes.emplace_back("<end>");
    const auto size = texts.bytes.size();
    return std::make_shared<const constraints::Vocabulary>(std::move(texts),
                                                           std::vector{static_cast<std::int32_t>(size - 1)}, size);
}

inline bool allows(const constraints::AllowedTokens& allowed, std::int32_t token) {
    const auto index = static_cast<std::size_t>(token);
    return (static_cast<std::uint32_t>(allowed.bits.at(index / 32)) >> (index % 32) & 1) == 1;
}

inline std::vector<std::int32_t> tokens_of(const constraints::AllowedTokens& allowed, std::size_t vocab) {
    std::vector<std::int32_t> tokens;
    for (std::int32_t token = 0; static_cast<std::size_t>(token) < vocab; ++token)
        if (allows(allowed, token)) tokens.push_back(token);
    return tokens;
}

/// A text of allowed tokens drawn one by one, which ends as soon as a coin says so where it may; empty where it has not ended in `most`.
inline std::string drawn_text(const std::shared_ptr<constraints::TokenConstraint>& constraint, std::mt19937& random,
                              std::size_t most = 400) {
    constraints::ConstrainedText text(constraint);
    const auto& vocabulary = constraint->vocabulary();
    const auto stream = constraints::stream(vocabulary);
    std::string made;
    for (std::size_t i = 0; i < most; ++i) {
        const auto allowed = must(text.allowed());
        if (!allowed->may_go_on || (allowed->may_end && random() % 3 == 0)) return made + stream->finish();
        auto tokens = tokens_of(*allowed, vocabulary->size());
        std::erase_if(tokens, [&](std::int32_t token) { return vocabulary->is_end(token); });
        // What ends strings, lists and objects rather often: else few texts end.
        std::vector<std::int32_t> closing;
        for (const std::int32_t token : tokens)
            if (const auto bytes = vocabulary->bytes(token); bytes == "\"" || bytes == "]" || bytes == "}")
                closing.push_back(token);
        const auto& from = !closing.empty() && random() % 4 == 0 ? closing : tokens;
        const std::int32_t token = from[random() % from.size()];
        must(text.add(token));
        made += stream->push(token);
    }
    return {};
}

}  // namespace vkformer::tests
