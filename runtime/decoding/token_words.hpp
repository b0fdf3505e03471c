// SPDX-License-Identifier: MIT
/// Which tokens make a word.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace vkformer::decoding {

struct TokenWord {
    std::string text;                 ///< UTF-8, most begin with a space; all of them, joined, are the text
    std::size_t first = 0, last = 0;  ///< tokens, `last` included
};

/// What tells words from each other.
enum class WordBounds : std::uint8_t {
    spaces,      ///< and punctuation, which then goes to the word that it stands at
    characters,  ///< of languages that write none: a word is what tokens of whole characters say, with punctuation
};
/// Of Whisper's languages, by their codes ("ja").
WordBounds word_bounds(const std::string& language);

/// The words of tokens that decode(tokens) gives the text of. A character whose bytes lie in several tokens stays whole. Transformers 5.12,
/// tokenization_whisper.py, _combine_tokens_into_words.
std::vector<TokenWord> words_of(std::span<const std::int32_t> tokens,
                                const std::function<std::string(std::span<const std::int32_t>)>& decode,
                                WordBounds bounds);

}  // namespace vkformer::decoding
