// SPDX-License-Identifier: MIT
#include "text/byte_level.hpp"

#include <array>
#include <cstddef>

#include "text/unicode.hpp"

namespace vkformer::text {
namespace {

constexpr char32_t kFirstSubstitute = 0x100;

/// Printable Latin-1 characters spell themselves.
constexpr bool is_own_spelling(unsigned byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/// The others are spelled, in order, by the characters from U+0100 on.
constexpr std::array<char32_t, 256> kSpelling = [] {
    std::array<char32_t, 256> spelling{};
    char32_t substitute = kFirstSubstitute;
    for (unsigned byte = 0; byte < spelling.size(); ++byte)
        spelling[byte] = is_own_spelling(byte) ? byte : substitute++;
    return spelling;
}();

constexpr std::size_t kSubstitutes = 68;
constexpr std::array<unsigned char, kSubstitutes> kSubstituted = [] {
    std::array<unsigned char, kSubstitutes> bytes{};
    for (unsigned byte = 0; byte < kSpelling.size(); ++byte)
        if (!is_own_spelling(byte)) bytes.at(kSpelling[byte] - kFirstSubstitute) = static_cast<unsigned char>(byte);
    return bytes;
}();

}  // namespace

std::string spell_bytes(std::string_view bytes) {
    std::string text;
    for (const char byte : bytes) append_character(text, kSpelling[static_cast<unsigned char>(byte)]);
    return text;
}

std::optional<std::string> bytes_of_spelling(std::string_view text) {
    std::string bytes;
    while (!text.empty()) {
        const Character character = first_character(text);
        text.remove_prefix(character.bytes);
        if (character.code < 0x100 && is_own_spelling(character.code)) {
            bytes += static_cast<char>(character.code);
        } else if (character.code >= kFirstSubstitute && character.code < kFirstSubstitute + kSubstitutes) {
            bytes += static_cast<char>(kSubstituted[character.code - kFirstSubstitute]);
        } else {
            return std::nullopt;
        }
    }
    return bytes;
}

}  // namespace vkformer::text
