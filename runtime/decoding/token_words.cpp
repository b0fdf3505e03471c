// SPDX-License-Identifier: MIT
#include "decoding/token_words.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace vkformer::decoding {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD, in place of bytes that are no character
constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
// Runs of these belong to the word behind them, of those to the one before.
constexpr std::string_view kOpening = "\"'“¡¿([{-", kClosing = "\"'.。,，!！?？:：”)]}、";

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kSpaces = " \t\n\v\f\r\x1C\x1D\x1E\x1F";  // those of Python's str.strip() below U+0080
    const std::size_t first = text.find_first_not_of(kSpaces);
    return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

bool is_part_of(std::string_view text, std::string_view marks) { return marks.find(text) != marks.npos; }

using Words = std::vector<TokenWord>;

/// The shortest runs of tokens that are whole characters.
Words whole_characters(std::span<const std::int32_t> tokens,
                       const std::function<std::string(std::span<const std::int32_t>)>& decode) {
    const std::string all = decode(tokens);
    // Whether the bytes that are no character here are none in the whole text, either.
    const auto is_whole = [&](const std::string& text, std::size_t offset) {
        const std::size_t broken = text.find(kReplacement);
        return broken == text.npos || offset + broken >= all.size() ||
               std::string_view(all).substr(offset + broken).starts_with(kReplacement);
    };
    Words words;
    std::size_t first = 0, offset = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        std::string text = decode(tokens.subspan(first, i + 1 - first));
        if (!is_whole(text, offset)) continue;
        offset += text.size();
        words.push_back({std::move(text), first, i});
        first = i + 1;
    }
    // What is broken in another way by itself than in the whole text.
    if (first < tokens.size()) words.push_back({decode(tokens.subspan(first)), first, tokens.size() - 1});
    return words;
}

void append(TokenWord& word, const TokenWord& next) {
    word.text += next.text;
    word.last = next.last;
}

Words joined_between_spaces(const Words& pieces) {
    Words words;
    for (const TokenWord& piece : pieces) {
        const bool begins = piece.text.starts_with(' ') || is_part_of(trimmed(piece.text), kPunctuation);
        if (begins || words.empty())
            words.push_back(piece);
        else
            append(words.back(), piece);
    }
    return words;
}

Words with_opening_marks(const Words& words) {
    Words result;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const TokenWord* const before = i > 0 ? &words[i - 1] : nullptr;
        if (before && before->text.starts_with(' ') && is_part_of(trimmed(before->text), kOpening))
            append(result.back(), words[i]);
        else
            result.push_back(words[i]);
    }
    return result;
}

Words with_closing_marks(const Words& words) {
    Words result;
    for (const TokenWord& word : words) {
        if (!result.empty() && !result.back().text.ends_with(' ') && is_part_of(word.text, kClosing))
            append(result.back(), word);
        else
            result.push_back(word);
    }
    return result;
}

}  // namespace

WordBounds word_bounds(const std::string& language) {
    static constexpr std::array<std::string_view, 6> kWithoutSpaces = {"zh", "ja", "th", "lo", "my", "yue"};
    return std::ranges::find(kWithoutSpaces, language) == kWithoutSpaces.end() ? WordBounds::spaces
                                                                               : WordBounds::characters;
}

Words words_of(std::span<const std::int32_t> tokens,
               const std::function<std::string(std::span<const std::int32_t>)>& decode, WordBounds bounds) {
    Words words = whole_characters(tokens, decode);
    if (bounds == WordBounds::spaces) words = joined_between_spaces(words);
    return with_closing_marks(with_opening_marks(words));
}

}  // namespace vkformer::decoding
