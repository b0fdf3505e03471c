// SPDX-License-Identifier: MIT
/// UTF-8 and the few character properties that tokenizers ask for.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "vkformer/result.hpp"

namespace vkformer::text {

/// Errors: InvalidArgument, with the offset of the first byte that is not UTF-8.
Result<void> check_utf8(std::string_view text);
bool is_utf8(std::string_view text) noexcept;
/// A byte inside a UTF-8 sequence, not at its front.
bool is_continuation(char byte) noexcept;

/// The character at the front of `text` and its length in bytes. Requires valid UTF-8 that is not empty.
struct Character {
    char32_t code = 0;
    std::size_t bytes = 0;
};
Character first_character(std::string_view text) noexcept;
/// The same for the end of the text.
Character last_character(std::string_view text) noexcept;
/// Bytes of the UTF-8 sequence that begins with `lead`; 1 for bytes that begin none.
std::size_t sequence_length(char lead) noexcept;
std::size_t count_characters(std::string_view text) noexcept;
void append_character(std::string& text, char32_t code);

/// The Unicode property White_Space.
bool is_white_space(char32_t code) noexcept;
/// What Python's str.strip() removes: White_Space and the four information separators.
bool is_python_space(char32_t code) noexcept;
std::string_view trim_start(std::string_view text, bool (*is_space)(char32_t)) noexcept;
std::string_view trim_end(std::string_view text, bool (*is_space)(char32_t)) noexcept;

void replace_all(std::string& text, std::string_view from, std::string_view to);

/// A text with every byte sequence that is not UTF-8 replaced by U+FFFD, one for each maximal part of a sequence.
std::string with_replacements(std::string_view bytes);

/// Bytes at the end of a text that begin a character which further bytes may complete: 0 to 3.
std::size_t incomplete_end(std::string_view bytes) noexcept;

/// "<0x0A>" → 10, as byte-fallback vocabularies spell bytes.
std::optional<unsigned char> byte_of_piece(std::string_view piece) noexcept;

}  // namespace vkformer::text
