// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "text/json_field.hpp"
#include "text/tokenizer.hpp"
#include "vkformer/result.hpp"

namespace vkformer::text {

/// Puts the special tokens around the ids of one text or of two. A plain value; by default it adds none.
class PostProcessor {
public:
    /// A text's place, or special tokens; with the type that all of these tokens get.
    struct Part {
        enum class Kind : std::uint8_t { first, second, special };
        Kind kind = Kind::first;
        std::int32_t type = 0;
        std::vector<std::int32_t> ids{};  ///< special only
    };

    PostProcessor();
    /// An empty `pair`: two texts cannot be put together.
    PostProcessor(std::vector<Part> single, std::vector<Part> pair);

    /// What `next` makes of what this one made.
    PostProcessor then(const PostProcessor& next) const;

    bool takes_pairs() const noexcept { return !pair_.empty(); }
    /// Special tokens around one text, or two.
    std::size_t added(bool is_pair) const noexcept;

    Encoding operator()(std::vector<std::int32_t> ids) const;
    /// Requires takes_pairs().
    Encoding operator()(std::vector<std::int32_t> first, std::vector<std::int32_t> second) const;

private:
    bool is_trivial() const noexcept;

    std::vector<Part> single_, pair_;
};

/// Errors: CorruptFile, UnsupportedConfig (a type that is not implemented, by name).
Result<PostProcessor> read_post_processor(const Field& field);

}  // namespace vkformer::text
