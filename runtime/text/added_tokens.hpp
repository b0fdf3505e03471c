// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vkformer::text {

/// A token that is found in the text before the model sees it.
struct AddedToken {
    std::int32_t id = 0;
    std::string content;
    bool single_word = false;  ///< only where no word character touches it
    bool lstrip = false;       ///< takes the white space before it along
    bool rstrip = false;       ///< and after it
    bool normalized = false;   ///< is looked for in the normalised text
    bool special = false;      ///< left out by decode(skip_special)
};

/// Finds the leftmost, and there the longest, of some texts.
class TextFinder {
public:
    /// Texts that are empty are never found; of equal texts the first is.
    explicit TextFinder(std::vector<std::string> texts);

    struct Match {
        std::size_t begin;
        std::size_t end;
        std::size_t index;  ///< of the text
    };
    std::optional<Match> next(std::string_view text, std::size_t from) const;
    bool empty() const noexcept { return empty_; }

private:
    /// A place in the tree of the texts' bytes.
    struct Node {
        std::vector<std::pair<unsigned char, std::size_t>> children;  // in the order of the bytes
        std::optional<std::size_t> text;                              // that ends here
        std::size_t child(unsigned char byte) const;                  // 0: there is none
    };

    std::vector<Node> nodes_;               // the root is the first
    std::array<std::size_t, 256> first_{};  // the root's children
    bool empty_ = true;
};

}  // namespace vkformer::text
