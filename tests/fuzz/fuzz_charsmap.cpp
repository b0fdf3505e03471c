// SPDX-License-Identifier: MIT
/// SentencePiece's precompiled normalisation rules: no text may lead a walk outside the trie, and rules eat what they match.
#include "fuzz.hpp"
#include "text/charsmap.hpp"

using namespace vkformer;

namespace {

void walk(const text::Charsmap& map, std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        const std::string_view rest = text.substr(i);
        const auto longest = map.longest(rest), shortest = map.shortest(rest);
        fuzz::require(longest.has_value() == shortest.has_value());
        if (!longest) continue;
        fuzz::require(0 < shortest->bytes && shortest->bytes <= longest->bytes && longest->bytes <= rest.size());
        fuzz::touch(std::as_bytes(std::span(longest->replacement)));
        fuzz::touch(std::as_bytes(std::span(shortest->replacement)));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto map = text::Charsmap::parse(fuzz::text_of(data, size), "input");
    fuzz::require_message(map);
    if (!map) return 0;
    std::string every_byte(256, '\0');
    for (std::size_t i = 0; i < every_byte.size(); ++i) every_byte[i] = static_cast<char>(i);
    walk(*map, every_byte);
    walk(*map, "abab ab ﬁ日本語");
    walk(*map, fuzz::text_of(data, size));
    return 0;
}
