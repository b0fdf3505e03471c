// SPDX-License-Identifier: MIT
#include "text/unicode.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cassert>
#include <cstdint>

namespace vkformer::text {
namespace {

/// utf8proc_iterate: the length of the first character, or a negative number where it is not UTF-8.
utf8proc_ssize_t iterate(std::string_view text, utf8proc_int32_t& code) noexcept {
    return utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                            static_cast<utf8proc_ssize_t>(text.size()), &code);
}

std::size_t valid_prefix(std::string_view text) noexcept {
    std::size_t at = 0;
    while (at < text.size()) {
        utf8proc_int32_t code = 0;
        const auto length = iterate(text.substr(at), code);
        if (length <= 0) break;
        at += static_cast<std::size_t>(length);
    }
    return at;
}

/// Bytes at the front of `text`, which is not UTF-8 there, that one U+FFFD stands for: the longest prefix of a valid
/// sequence, at least one byte (Unicode 15, section 3.9, table 3-8).
std::size_t ill_formed_length(std::string_view text) noexcept {
    const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    const unsigned lead = byte(0), second = byte(1);
    std::size_t expected = 0;
    unsigned low = 0x80, high = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF) expected = 2;
    if (lead >= 0xE0 && lead <= 0xEF) {
        expected = 3;
        if (lead == 0xE0) low = 0xA0;
        if (lead == 0xED) high = 0x9F;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        expected = 4;
        if (lead == 0xF0) low = 0x90;
        if (lead == 0xF4) high = 0x8F;
    }
    if (expected == 0 || second < low || second > high) return 1;
    std::size_t length = 2;
    while (length < expected && length < text.size() && is_continuation(text[length])) ++length;
    return length;
}

}  // namespace

bool is_continuation(char byte) noexcept { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

Result<void> check_utf8(std::string_view text) {
    const std::size_t valid = valid_prefix(text);
    if (valid == text.size()) return {};
    return Error{ErrorCode::InvalidArgument, "the text is not UTF-8 at byte " + std::to_string(valid)};
}

bool is_utf8(std::string_view text) noexcept { return valid_prefix(text) == text.size(); }

Character first_character(std::string_view text) noexcept {
    assert(!text.empty());
    utf8proc_int32_t code = 0;
    const auto length = iterate(text, code);
    assert(length > 0);
    return {static_cast<char32_t>(code), static_cast<std::size_t>(length)};
}

Character last_character(std::string_view text) noexcept {
    assert(!text.empty());
    std::size_t start = text.size() - 1;
    while (start > 0 && is_continuation(text[start])) --start;
    return first_character(text.substr(start));
}

std::size_t sequence_length(char lead) noexcept {
    const auto byte = static_cast<unsigned char>(lead);
    return byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
}

std::size_t count_characters(std::string_view text) noexcept {
    std::size_t count = 0;
    for (const char byte : text) count += !is_continuation(byte);
    return count;
}

void append_character(std::string& text, char32_t code) {
    utf8proc_uint8_t bytes[4];
    const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
    text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

bool is_white_space(char32_t code) noexcept {
    return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
           code == 0x3000;
}

bool is_python_space(char32_t code) noexcept { return is_white_space(code) || (code >= 0x1C && code <= 0x1F); }

std::string_view trim_start(std::string_view text, bool (*is_space)(char32_t)) noexcept {
    while (!text.empty()) {
        const Character first = first_character(text);
        if (!is_space(first.code)) break;
        text.remove_prefix(first.bytes);
    }
    return text;
}

std::string_view trim_end(std::string_view text, bool (*is_space)(char32_t)) noexcept {
    while (!text.empty()) {
        const Character last = last_character(text);
        if (!is_space(last.code)) break;
        text.remove_suffix(last.bytes);
    }
    return text;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
    if (from.empty() || text.find(from) == text.npos) return;
    std::string result;
    std::size_t start = 0;
    for (std::size_t found; (found = text.find(from, start)) != text.npos; start = found + from.size())
        result.append(text, start, found - start).append(to);
    text = result.append(text, start);
}

std::string with_replacements(std::string_view bytes) {
    std::string text;
    while (true) {
        const std::size_t valid = valid_prefix(bytes);
        text += bytes.substr(0, valid);
        bytes.remove_prefix(valid);
        if (bytes.empty()) return text;
        text += "\uFFFD";
        bytes.remove_prefix(ill_formed_length(bytes));
    }
}

std::size_t incomplete_end(std::string_view bytes) noexcept {
    for (std::size_t size = 1; size <= std::min<std::size_t>(3, bytes.size()); ++size) {
        const std::string_view end = bytes.substr(bytes.size() - size);
        if (is_continuation(end.front())) continue;
        return sequence_length(end.front()) > size && ill_formed_length(end) == size ? size : 0;
    }
    return 0;
}

std::optional<unsigned char> byte_of_piece(std::string_view piece) noexcept {
    if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
    unsigned value = 0;
    for (const char digit : piece.substr(3, 2)) {
        value *= 16;
        if (digit >= '0' && digit <= '9') {
            value += static_cast<unsigned>(digit - '0');
        } else if (digit >= 'A' && digit <= 'F') {
            value += static_cast<unsigned>(digit - 'A') + 10;
        } else if (digit >= 'a' && digit <= 'f') {
            value += static_cast<unsigned>(digit - 'a') + 10;
        } else {
            return std::nullopt;
        }
    }
    return static_cast<unsigned char>(value);
}

}  // namespace vkformer::text
