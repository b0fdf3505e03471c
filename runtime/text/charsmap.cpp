// SPDX-License-Identifier: MIT
#include "text/charsmap.hpp"

#include <cstring>

#include "text/unicode.hpp"

namespace vkformer::text {
namespace {

/// The unit of Yata's double array (darts-clone): 8 bits of label, a bit that says that a value hangs below, the distance
/// to the children (xor), or, with the top bit set, a value.
struct Unit {
    std::uint32_t bits;
    bool has_leaf() const noexcept { return (bits >> 8) & 1; }
    std::uint32_t value() const noexcept { return bits & 0x7FFFFFFFu; }
    std::uint32_t label() const noexcept { return bits & 0x800000FFu; }
    std::uint32_t offset() const noexcept { return (bits >> 10) << ((bits & 0x200u) >> 6); }
};

}  // namespace

Result<Charsmap> Charsmap::parse(std::string_view blob, std::string_view file_name) {
    const auto corrupt = [&](const char* what) {
        return Error{ErrorCode::CorruptFile, std::string(file_name) + ": the precompiled normalisation map " + what};
    };
    std::uint32_t trie_bytes = 0;
    if (blob.size() <= sizeof trie_bytes) return corrupt("is truncated");
    std::memcpy(&trie_bytes, blob.data(), sizeof trie_bytes);
    blob.remove_prefix(sizeof trie_bytes);
    if (trie_bytes >= blob.size()) return corrupt("is truncated");
    if (trie_bytes == 0 || trie_bytes % sizeof(std::uint32_t) != 0) return corrupt("has a trie of broken size");

    Charsmap map;
    map.units_.resize(trie_bytes / sizeof(std::uint32_t));
    std::memcpy(map.units_.data(), blob.data(), trie_bytes);
    map.replacements_ = blob.substr(trie_bytes);
    if (map.replacements_.back() != '\0') return corrupt("ends without a zero byte");
    if (!is_utf8(map.replacements_)) return corrupt("has replacements that are not UTF-8");

    // From every node that can be reached, all 256 children must lie inside.
    const std::size_t size = map.units_.size();
    std::vector<bool> reached(size, false);
    std::vector<std::uint32_t> nodes = {Unit{map.units_[0]}.offset()};
    while (!nodes.empty()) {
        const std::uint32_t children = nodes.back();
        nodes.pop_back();
        if ((children | 0xFFu) >= size) return corrupt("leads outside its trie");
        for (std::uint32_t byte = 0; byte < 256; ++byte) {
            const std::uint32_t node = children ^ byte;
            const Unit unit{map.units_[node]};
            if (byte == 0 || unit.label() != byte || reached[node]) continue;
            reached[node] = true;
            const std::uint32_t below = node ^ unit.offset();
            if (below >= size) return corrupt("leads outside its trie");
            if (unit.has_leaf()) {
                const std::uint32_t start = Unit{map.units_[below]}.value();
                if (start >= map.replacements_.size() || is_continuation(map.replacements_[start]))
                    return corrupt("points beside its replacements");
            }
            nodes.push_back(below);
        }
    }
    return map;
}

std::optional<Charsmap::Match> Charsmap::find(std::string_view text, bool longest) const {
    std::optional<Match> match;
    std::uint32_t node = Unit{units_[0]}.offset();
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        node ^= byte;
        const Unit unit{units_[node]};
        if (byte == 0 || unit.label() != byte) break;
        node ^= unit.offset();
        if (!unit.has_leaf()) continue;
        match = Match{i + 1, replacements_.c_str() + Unit{units_[node]}.value()};
        if (!longest) break;
    }
    return match;
}

}  // namespace vkformer::text
