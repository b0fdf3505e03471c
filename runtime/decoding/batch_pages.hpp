// SPDX-License-Identifier: MIT
/// The pages of a batch's sequences. Layers that see all of a sequence, and those that see a window of it, have pages of their own: of the
/// latter a sequence gives back what none of its tokens will see any more.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "decoding/page_pool.hpp"

namespace vkformer::decoding {

/// Of pages, at most.
inline constexpr std::size_t kPageKinds = 2;

/// Pages of some layers.
struct PageKind {
    std::uint32_t pages = 2;   ///< as of PagePool
    std::uint32_t window = 0;  ///< > 0: a token sees so many at most, itself included

    /// Pages before the first that a token sees which has so many before it.
    std::size_t passed(std::size_t tokens) const noexcept;
    /// Pages that a sequence has at most while `ahead` tokens are computed at a time; requires a window.
    std::size_t most(std::size_t ahead) const noexcept;
};

/// What a sequence has: of every kind pages for as many tokens, but for those that were given back.
struct SequencePages {
    struct Held {
        std::vector<std::uint32_t> pages{};  // 0: given back
        std::size_t passed = 0;              // so many at the beginning

        std::size_t count() const noexcept { return pages.size() - passed; }
    };
    std::array<Held, kPageKinds> held{};
    std::size_t kept = 0;       ///< of the pages, which others may find
    PageChains::Chain chain{};  ///< of these
};

/// Not thread-safe.
class BatchPages {
public:
    /// `ahead`: tokens of a sequence that are computed at a time at most, guesses aside.
    BatchPages(std::span<const PageKind> kinds, std::uint32_t ahead);

    std::size_t kinds() const noexcept { return kinds_.size(); }
    const PagePool& pool(std::size_t kind) const { return *pools_[kind]; }

    using PageKey = std::function<std::vector<std::int32_t>(std::size_t page)>;  ///< as of PageChains
    /// Lends a sequence that has none the pages of its longest beginning, of at most `most` pages, behind which a token finds all that it
    /// sees. So many pages long it is.
    std::size_t find(SequencePages& sequence, std::size_t most, const PageKey& key);
    /// Whether there are pages for a sequence that has found its beginning, and one for each other that may want one before long.
    bool has_room(const SequencePages& sequence, std::size_t tokens,
                  std::span<const SequencePages* const> others) const;
    /// Takes pages for so many tokens, of windows for as many of them as are computed before others are passed. False: there are too few.
    bool reserve(SequencePages& sequence, std::size_t tokens);
    /// Takes pages for so many tokens. False: there are too few, and some were taken.
    bool have(SequencePages& sequence, std::size_t tokens);
    /// Whether have() can take pages that are free.
    bool are_free(const SequencePages& sequence, std::size_t tokens) const;
    /// Lets others find the pages that so many tokens fill.
    void keep(SequencePages& sequence, std::size_t tokens, const PageKey& key);
    /// Gives back what no token sees that has so many before it; keep() was told of them.
    void pass(SequencePages& sequence, std::size_t tokens);
    /// Gives back what lies behind so many tokens.
    void drop_behind(SequencePages& sequence, std::size_t tokens);
    void release(SequencePages& sequence);

private:
    std::size_t reach(std::size_t kind, const SequencePages& sequence, std::size_t tokens) const;
    bool take_until(std::size_t kind, SequencePages& sequence, std::size_t pages);

    std::vector<PageKind> kinds_;
    std::uint32_t ahead_;
    PageChains chains_;  // before those that have some
    std::array<std::optional<PagePool>, kPageKinds> pools_;
};

}  // namespace vkformer::decoding
