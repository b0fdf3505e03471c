// SPDX-License-Identifier: MIT
/// Which page of the key/value caches holds which tokens (Kwon et al. 2023, "PagedAttention"): pages are lent to sequences, a page that
/// several sequences begin with is lent to all of them, and one that nobody has any more is kept until its place is needed.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace vkformer::decoding {

/// Not thread-safe.
class PagePool {
public:
    /// What a page's keys depend on: its own key and those of all before it.
    using Chain = std::uint64_t;
    static constexpr Chain kBeginning = 0;  ///< of a sequence

    /// Pages 1 … pages − 1 are lent; page 0 belongs to nobody: what nobody will read is written there. Requires pages ≥ 2, page_len ≥ 1.
    PagePool(std::uint32_t pages, std::uint32_t page_len);

    std::uint32_t page_len() const noexcept { return page_len_; }
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
    /// The page of that key behind `before`, lent once more; none: it is not there. A key has the page's tokens, page_len of them, and may have
    /// behind them what else the page's contents depend on.
    struct Found {
        std::uint32_t page;
        Chain chain;
    };
    std::optional<Found> find(Chain before, std::span<const std::int32_t> key);
    /// The page, lent once, has that key behind `before`, and others may find it from now on; what comes behind it has the chain that is
    /// returned. Where another page has the same, that stays the one that is found.
    Chain keep(std::uint32_t page, Chain before, std::span<const std::int32_t> key);
    /// Given back by one that had it. Pages of a sequence are given back from the last to the first, so that its end goes first when a place is
    /// needed: a page is of use only with those before it.
    void give_back(std::uint32_t page);

private:
    using Key = std::pair<Chain, std::vector<std::int32_t>>;
    struct Page {
        std::uint32_t lent = 0;  // times
        Chain chain = kBeginning;
        std::optional<std::map<Key, std::uint32_t>::iterator> known{};  // under which others find it
        std::list<std::uint32_t>::iterator kept{};                      // where it is neither lent nor free
    };

    std::uint32_t page_len_;
    std::vector<Page> pages_;
    std::vector<std::uint32_t> free_;
    std::list<std::uint32_t> kept_;  // the longest first
    std::map<Key, std::uint32_t> known_;
    Chain last_chain_ = kBeginning;
};

}  // namespace vkformer::decoding
