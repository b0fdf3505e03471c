// SPDX-License-Identifier: MIT
/// Which page of the key/value caches holds which tokens (Kwon et al. 2023, "PagedAttention"): pages are lent to sequences, a page that
/// several sequences begin with is lent to all of them, and one that nobody has any more is kept until its place is needed.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "decoding/page_chains.hpp"

namespace vkformer::decoding {

/// Not thread-safe.
class PagePool {
public:
    using Chain = PageChains::Chain;

    /// Pages 1 … pages − 1 are lent; page 0 belongs to nobody: what nobody will read is written there. Requires pages ≥ 2.
    explicit PagePool(std::uint32_t pages);

    /// To be lent at most.
    std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(pages_.size() - 1); }
    /// Lent, kept for later, and neither.
    std::uint32_t used() const noexcept { return size() - kept() - free(); }
    std::uint32_t kept() const noexcept { return static_cast<std::uint32_t>(kept_.size()); }
    std::uint32_t free() const noexcept { return static_cast<std::uint32_t>(free_.size()); }
    /// Pages that take() can give.
    std::uint32_t available() const noexcept { return kept() + free(); }

    /// A page of one's own; where none is free, the one that was kept longest gives way. None: all are lent.
    std::optional<std::uint32_t> take();
    /// Whether the last page of that beginning is there.
    bool has(const Chain& chain) const { return known_.contains(chain.get()); }
    /// That page, lent once more; none: it is not there.
    std::optional<std::uint32_t> find(const Chain& chain);
    /// The page, lent once, is the last one of that beginning, and others may find it from now on. Where another page is the same, that
    /// stays the one that is found.
    void keep(std::uint32_t page, const Chain& chain);
    /// Given back by one that had it. Pages that a sequence has at its end are given back from the last to the first, so that its end goes
    /// first when a place is needed: a page is of use only with those before it that are seen from behind it.
    void give_back(std::uint32_t page);

private:
    struct Page {
        std::uint32_t lent = 0;                     // times
        Chain known{};                              // by which others find it
        std::list<std::uint32_t>::iterator kept{};  // where it is neither lent nor free
    };

    std::vector<Page> pages_;
    std::vector<std::uint32_t> free_;
    std::list<std::uint32_t> kept_;  // the longest first
    std::map<const PageChains::Link*, std::uint32_t> known_;
};

}  // namespace vkformer::decoding
