// SPDX-License-Identifier: MIT
#include "decoding/page_pool.hpp"

#include <cassert>

namespace vkformer::decoding {

PagePool::PagePool(std::uint32_t pages) : pages_(pages) {
    assert(pages >= 2);
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
        known_.erase(pages_[page].known.get());
    } else {
        return std::nullopt;
    }
    pages_[page] = {.lent = 1};
    return page;
}

std::optional<std::uint32_t> PagePool::find(const Chain& chain) {
    const auto known = known_.find(chain.get());
    if (known == known_.end()) return std::nullopt;
    Page& page = pages_[known->second];
    if (page.lent++ == 0) kept_.erase(page.kept);
    return known->second;
}

void PagePool::keep(std::uint32_t index, const Chain& chain) {
    Page& page = pages_[index];
    assert(page.lent == 1 && !page.known && chain);
    if (known_.try_emplace(chain.get(), index).second) page.known = chain;
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
