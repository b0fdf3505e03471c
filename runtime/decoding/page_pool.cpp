// SPDX-License-Identifier: MIT
#include "decoding/page_pool.hpp"

#include <cassert>

namespace vkformer::decoding {

PagePool::PagePool(std::uint32_t pages, std::uint32_t page_len) : page_len_(page_len), pages_(pages) {
    assert(pages >= 2 && page_len >= 1);
    for (std::uint32_t page = pages - 1; page > 0; --page) free_.push_back(page);
}

std::optional<std::uint32_t> PagePool::take() {
    std::uint32_t page = 0;
    if (!free_.empty()) {
        page = free_.back();
        free_.pop_back();
    } else if (!kept_.empty()) {
        page = kept_.front();
        kept_.pop_front();
        known_.erase(*pages_[page].known);
    } else {
        return std::nullopt;
    }
    pages_[page] = {.lent = 1};
    return page;
}

std::optional<PagePool::Found> PagePool::find(Chain before, std::span<const std::int32_t> key) {
    assert(key.size() >= page_len_);
    const auto known = known_.find({before, {key.begin(), key.end()}});
    if (known == known_.end()) return std::nullopt;
    Page& page = pages_[known->second];
    if (page.lent++ == 0) kept_.erase(page.kept);
    return Found{known->second, page.chain};
}

PagePool::Chain PagePool::keep(std::uint32_t index, Chain before, std::span<const std::int32_t> key) {
    Page& page = pages_[index];
    assert(page.lent == 1 && !page.known && key.size() >= page_len_);
    const auto [known, is_new] = known_.try_emplace({before, {key.begin(), key.end()}}, index);
    if (!is_new) return pages_[known->second].chain;
    page.known = known;
    page.chain = ++last_chain_;
    return page.chain;
}

void PagePool::give_back(std::uint32_t index) {
    Page& page = pages_[index];
    assert(page.lent > 0);
    if (--page.lent > 0) return;
    if (page.known)
        page.kept = kept_.insert(kept_.end(), index);
    else
        free_.push_back(index);
}

}  // namespace vkformer::decoding
