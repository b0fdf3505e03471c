// SPDX-License-Identifier: MIT
/// The alphabet of byte-level tokenizers: each byte is spelled by one printable character (GPT-2).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace vkformer::text {

/// Every byte as its character.
std::string spell_bytes(std::string_view bytes);
/// The bytes that the characters stand for; nothing where one of them stands for none.
std::optional<std::string> bytes_of_spelling(std::string_view text);

}  // namespace vkformer::text
