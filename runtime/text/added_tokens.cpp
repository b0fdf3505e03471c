// SPDX-License-Identifier: MIT
#include "text/added_tokens.hpp"

#include <algorithm>
#include <utility>

namespace vkformer::text {

TextFinder::TextFinder(std::vector<std::string> texts) : nodes_(1), empty_(texts.empty()) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
        std::size_t node = 0;
        for (const char c : texts[i]) {
            const auto byte = static_cast<unsigned char>(c);
            std::size_t next = nodes_[node].child(byte);
            if (next == 0) {
                next = nodes_.size();
                nodes_.emplace_back();
                auto& children = nodes_[node].children;
                children.insert(std::ranges::upper_bound(children, std::pair(byte, next)), {byte, next});
            }
            node = next;
        }
        if (node != 0 && !nodes_[node].text) nodes_[node].text = i;
    }
    for (const auto& [byte, node] : nodes_.front().children) first_[byte] = node;
}

std::size_t TextFinder::Node::child(unsigned char byte) const {
    const auto found = std::ranges::lower_bound(children, byte, {}, &std::pair<unsigned char, std::size_t>::first);
    return found != children.end() && found->first == byte ? found->second : 0;
}

std::optional<TextFinder::Match> TextFinder::next(std::string_view text, std::size_t from) const {
    for (std::size_t begin = from; begin < text.size(); ++begin) {
        std::optional<Match> longest;
        std::size_t node = first_[static_cast<unsigned char>(text[begin])];
        for (std::size_t end = begin + 1; node != 0; ++end) {
            if (nodes_[node].text) longest = Match{begin, end, *nodes_[node].text};
            if (end == text.size()) break;
            node = nodes_[node].child(static_cast<unsigned char>(text[end]));
        }
        if (longest) return longest;
    }
    return std::nullopt;
}

}  // namespace vkformer::text
