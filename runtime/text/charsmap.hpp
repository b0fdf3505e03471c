// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "vkformer/result.hpp"

namespace vkformer::text {

/// SentencePiece's precompiled normalisation rules: a double-array trie from byte sequences to replacements.
/// Layout: uint32 trie bytes, the trie's units, then the replacements, each ended by a zero byte.
class Charsmap {
public:
    /// Checks that no text whatsoever leads a walk through the trie outside it. Errors: CorruptFile.
    static Result<Charsmap> parse(std::string_view blob, std::string_view file_name);

    struct Match {
        std::size_t bytes;
        std::string_view replacement;
    };
    /// The rule for the longest, or the shortest, front of `text` that has one.
    std::optional<Match> longest(std::string_view text) const { return find(text, true); }
    std::optional<Match> shortest(std::string_view text) const { return find(text, false); }

private:
    Charsmap() = default;
    std::optional<Match> find(std::string_view text, bool longest) const;

    std::vector<std::uint32_t> units_;
    std::string replacements_;
};

}  // namespace vkformer::text
