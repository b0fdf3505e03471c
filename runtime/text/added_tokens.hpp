// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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
    bool empty() const noexcept { return texts_.empty(); }

private:
    std::vector<std::string> texts_;
    std::array<std::vector<std::size_t>, 256> by_first_byte_;  // longest first
};

}  // namespace vkformer::text
