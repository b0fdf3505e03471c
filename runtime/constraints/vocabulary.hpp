// SPDX-License-Identifier: MIT
/// A tokenizer's vocabulary as bytes, in a tree of their beginnings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/stream_decoder.hpp"
#include "text/tokenizer.hpp"

namespace vkformer::constraints {

/// Kinds of characters, a bit each: what a subtree of tokens is made of, and what leads from a place to the same next one.
enum CharacterKind : std::uint8_t {
    kLetters = 1,
    kDigits = 2,
    kSpaces = 4,
    kOthers = 8,   // of ASCII, that can be printed
    kQuotes = 16,  // " and the backslash
    kControls = 32,
    kBeyondAscii = 64,  // in whole characters
    kParts = 128,       // bytes that are no whole character
};
/// Of a byte below 128.
CharacterKind kind_of(unsigned char byte) noexcept;

/// Stands before the spelling of a special token, so that one follows only where a grammar has this byte. It is in no UTF-8, and plain
/// tokens have another one in its place.
inline constexpr char kSpecialByte = '\xFF';

/// Immutable.
class Vocabulary {
public:
    /// `ends`: tokens that end a text, and are none of it. `size`: tokens that the model chooses from.
    Vocabulary(text::TokenTexts texts, std::vector<std::int32_t> ends, std::size_t size);

    /// A byte of the tree, in the order in which a walk in depth meets it.
    struct Node {
        std::uint8_t byte;
        std::uint8_t depth;         // 1: a first byte
        std::uint8_t kinds;         // of characters below it
        std::uint8_t height;        // characters below it in a token, at most; of no meaning with kParts
        std::uint32_t behind;       // the first node that is not below this one
        std::uint32_t first_token;  // of those that end here or below
    };
    std::span<const Node> nodes() const noexcept { return std::span(nodes_).first(nodes_.size() - 1); }
    /// That end at the node.
    std::span<const std::int32_t> tokens_at(std::size_t node) const noexcept {
        return std::span(tokens_).subspan(nodes_[node].first_token,
                                          nodes_[node + 1].first_token - nodes_[node].first_token);
    }
    /// Likewise, or below it.
    std::span<const std::int32_t> tokens_below(std::size_t node) const noexcept {
        const std::uint32_t first = nodes_[node].first_token;
        return std::span(tokens_).subspan(first, nodes_[nodes_[node].behind].first_token - first);
    }
    std::size_t deepest() const noexcept { return deepest_; }

    /// Of a special token: kSpecialByte and how it is spelled.
    std::string_view bytes(std::int32_t token) const noexcept;
    bool drops_first_space() const noexcept { return texts_.drops_first_space; }
    std::span<const std::int32_t> ends() const noexcept { return ends_; }
    bool is_end(std::int32_t token) const noexcept;
    std::size_t size() const noexcept { return size_; }

private:
    text::TokenTexts texts_;
    std::vector<std::int32_t> ends_;
    std::size_t size_;
    std::vector<Node> nodes_;           // and one behind the last
    std::vector<std::int32_t> tokens_;  // in the order of their bytes
    std::size_t deepest_ = 0;
};

/// The text of tokens as the vocabulary has their bytes: what a constraint has been told of. `shows_special`: special ones as they are
/// spelled; else they are no text.
std::unique_ptr<text::StreamDecoder> stream(std::shared_ptr<const Vocabulary> vocabulary, bool shows_special = false);

}  // namespace vkformer::constraints
