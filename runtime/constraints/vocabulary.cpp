// SPDX-License-Identifier: MIT
#include "constraints/vocabulary.hpp"

#include <algorithm>
#include <utility>

#include "core/stable_order.hpp"
#include "text/unicode.hpp"

namespace vkformer::constraints {
namespace {

constexpr std::size_t kLongestToken = 255;  // bytes: a longer one is not chosen

struct Behind {
    std::uint8_t kinds, characters;
};
/// What stands behind each of the bytes; behind a byte inside a character, and in what is no UTF-8, kParts.
std::vector<Behind> behind_each(std::string_view bytes) {
    std::vector<Behind> all(bytes.size(), {kParts, 0});
    std::size_t whole = bytes.size() - text::incomplete_end(bytes);
    if (!text::is_utf8(bytes.substr(0, whole))) return all;
    Behind behind = {whole < bytes.size() ? std::uint8_t{kParts} : std::uint8_t{0}, 0};
    while (whole > 0) {
        all[whole - 1] = behind;
        const auto last = static_cast<unsigned char>(bytes[whole - 1]);
        behind.kinds |= last < 0x80 ? kind_of(last) : kBeyondAscii;
        ++behind.characters;
        for (--whole; whole > 0 && text::is_continuation(bytes[whole]);) --whole;
    }
    return all;
}

/// Bytes as they come, in whole characters.
class ByteStream final : public text::StreamDecoder {
public:
    ByteStream(std::shared_ptr<const Vocabulary> vocabulary, bool shows_special)
        : vocabulary_(std::move(vocabulary)), shows_special_(shows_special) {}

    std::string push(std::int32_t token) override {
        std::string_view bytes = vocabulary_->bytes(token);
        if (std::exchange(is_first_, false) && vocabulary_->drops_first_space() && bytes.starts_with(' '))
            bytes.remove_prefix(1);
        if (bytes.starts_with(kSpecialByte)) bytes.remove_prefix(shows_special_ ? 1 : bytes.size());
        held_ += bytes;
        const std::size_t whole = held_.size() - text::incomplete_end(held_);
        std::string text = text::with_replacements(std::string_view(held_).substr(0, whole));
        held_.erase(0, whole);
        return text;
    }
    std::string finish() override { return text::with_replacements(std::exchange(held_, {})); }

private:
    std::shared_ptr<const Vocabulary> vocabulary_;
    bool shows_special_;
    std::string held_;
    bool is_first_ = true;
};

}  // namespace

CharacterKind kind_of(unsigned char byte) noexcept {
    const auto lower = static_cast<unsigned char>(byte | 0x20);
    if (lower >= 'a' && lower <= 'z') return kLetters;
    if (byte >= '0' && byte <= '9') return kDigits;
    if (byte == ' ') return kSpaces;
    if (byte == '"' || byte == '\\') return kQuotes;
    return byte < 0x20 || byte == 0x7F ? kControls : kOthers;
}

Vocabulary::Vocabulary(text::TokenTexts texts, std::vector<std::int32_t> ends, std::size_t size)
    : texts_(std::move(texts)), ends_(std::move(ends)), size_(size) {
    constexpr char kOther = '\xFE';  // in no UTF-8 either
    for (std::string& bytes : texts_.bytes) std::ranges::replace(bytes, kSpecialByte, kOther);
    for (const std::int32_t token : texts_.special)
        texts_.bytes[static_cast<std::size_t>(token)].insert(0, 1, kSpecialByte);
    for (std::int32_t token = 0; static_cast<std::size_t>(token) < std::min(size, texts_.bytes.size()); ++token) {
        const std::size_t length = bytes(token).size();
        if (length > 0 && length <= kLongestToken && !is_end(token)) tokens_.push_back(token);
    }
    sort_stably(tokens_, [&](std::int32_t a, std::int32_t b) { return bytes(a) < bytes(b); });
    std::vector<std::size_t> path;  // the nodes of the token before
    std::string_view before;
    const auto leave = [&](std::size_t depth) {
        for (; path.size() > depth; path.pop_back())
            nodes_[path.back()].behind = static_cast<std::uint32_t>(nodes_.size());
    };
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
        const std::string_view text = bytes(tokens_[i]);
        leave(static_cast<std::size_t>(std::ranges::mismatch(before, text).in1 - before.begin()));
        for (std::size_t depth = path.size(); depth < text.size(); ++depth) {
            path.push_back(nodes_.size());
            nodes_.push_back({.byte = static_cast<std::uint8_t>(text[depth]),
                              .depth = static_cast<std::uint8_t>(depth + 1),
                              .kinds = 0,
                              .height = 0,
                              .behind = 0,
                              .first_token = static_cast<std::uint32_t>(i)});
        }
        const auto behind = behind_each(text);
        for (std::size_t depth = 0; depth < text.size(); ++depth) {
            Node& node = nodes_[path[depth]];
            node.kinds |= behind[depth].kinds;
            node.height = std::max(node.height, behind[depth].characters);
        }
        deepest_ = std::max(deepest_, text.size());
        before = text;
    }
    leave(0);
    nodes_.push_back({.byte = 0,
                      .depth = 0,
                      .kinds = 0,
                      .height = 0,
                      .behind = 0,
                      .first_token = static_cast<std::uint32_t>(tokens_.size())});
}

std::string_view Vocabulary::bytes(std::int32_t token) const noexcept {
    const auto index = static_cast<std::size_t>(token);
    return index < texts_.bytes.size() ? std::string_view(texts_.bytes[index]) : std::string_view();
}

bool Vocabulary::is_end(std::int32_t token) const noexcept { return std::ranges::find(ends_, token) != ends_.end(); }

std::unique_ptr<text::StreamDecoder> stream(std::shared_ptr<const Vocabulary> vocabulary, bool shows_special) {
    return std::make_unique<ByteStream>(std::move(vocabulary), shows_special);
}

}  // namespace vkformer::constraints
