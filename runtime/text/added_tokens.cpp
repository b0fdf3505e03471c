// SPDX-License-Identifier: MIT
#include "text/added_tokens.hpp"

#include <algorithm>
#include <utility>

namespace vkformer::text {

TextFinder::TextFinder(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (std::size_t i = 0; i < texts_.size(); ++i)
        if (!texts_[i].empty()) by_first_byte_[static_cast<unsigned char>(texts_[i].front())].push_back(i);
    for (auto& candidates : by_first_byte_)
        std::ranges::stable_sort(candidates, std::ranges::greater{}, [&](std::size_t i) { return texts_[i].size(); });
}

std::optional<TextFinder::Match> TextFinder::next(std::string_view text, std::size_t from) const {
    for (std::size_t begin = from; begin < text.size(); ++begin) {
        for (const std::size_t index : by_first_byte_[static_cast<unsigned char>(text[begin])]) {
            if (text.substr(begin).starts_with(texts_[index])) return Match{begin, begin + texts_[index].size(), index};
        }
    }
    return std::nullopt;
}

}  // namespace vkformer::text
