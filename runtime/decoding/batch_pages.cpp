// SPDX-License-Identifier: MIT
#include "decoding/batch_pages.hpp"

#include <algorithm>
#include <cassert>
#include <ranges>

#include "graph/pages.hpp"

namespace vkformer::decoding {
namespace {

std::size_t pages_for(std::size_t tokens) { return static_cast<std::size_t>(graph::page_count(tokens)); }

}  // namespace

std::size_t PageKind::passed(std::size_t tokens) const noexcept {
    return window == 0 || tokens < window ? 0 : static_cast<std::size_t>((tokens + 1 - window) / graph::kPageLen);
}

/// window − 1 + ahead tokens that begin at the end of a page.
std::size_t PageKind::most(std::size_t ahead) const noexcept {
    assert(window > 0);
    return pages_for(window - 1 + ahead + graph::kPageLen - 1);
}

BatchPages::BatchPages(std::span<const PageKind> kinds, std::uint32_t ahead)
    : kinds_(kinds.begin(), kinds.end()), ahead_(ahead) {
    for (std::size_t k = 0; k < kinds_.size(); ++k) pools_[k].emplace(kinds_[k].pages);
}

std::size_t BatchPages::find(SequencePages& sequence, std::size_t most, const PageKey& key) {
    std::vector<PageChains::Chain> chains;
    for (PageChains::Chain last; chains.size() < most; chains.push_back(last)) {
        last = chains_.find(last, key(chains.size()));
        if (!last) break;
    }
    std::array<std::size_t, kPageKinds> there{};  // pages side by side, up to the last
    std::size_t best = 0;
    for (std::size_t count = 1; count <= chains.size(); ++count) {
        bool are_there = true;
        for (std::size_t k = 0; k < kinds(); ++k) {
            there[k] = pools_[k]->has(chains[count - 1]) ? there[k] + 1 : 0;
            are_there = are_there && there[k] + kinds_[k].passed(count * graph::kPageLen) >= count;
        }
        if (are_there) best = count;
    }
    for (std::size_t k = 0; k < kinds(); ++k) {
        SequencePages::Held& held = sequence.held[k];
        held.passed = kinds_[k].passed(best * graph::kPageLen);
        held.pages.resize(best, 0);
        for (std::size_t i = held.passed; i < best; ++i) held.pages[i] = *pools_[k]->find(chains[i]);
    }
    sequence.kept = best;
    sequence.chain = best > 0 ? chains[best - 1] : nullptr;
    return best;
}

/// Pages that a sequence of so many tokens has, or comes to before it passes others.
std::size_t BatchPages::reach(std::size_t kind, const SequencePages& sequence, std::size_t tokens) const {
    const std::size_t all = pages_for(tokens);
    if (kinds_[kind].window == 0) return all;
    return std::min(all, sequence.held[kind].passed + kinds_[kind].most(ahead_));
}

bool BatchPages::has_room(const SequencePages& sequence, std::size_t tokens,
                          std::span<const SequencePages* const> others) const {
    for (std::size_t k = 0; k < kinds(); ++k) {
        std::size_t wanted = reach(k, sequence, tokens) - sequence.held[k].pages.size();
        for (const SequencePages* other : others)
            if (kinds_[k].window == 0 || other->held[k].count() < kinds_[k].most(1)) ++wanted;
        if (pools_[k]->available() < wanted) return false;
    }
    return true;
}

bool BatchPages::take_until(std::size_t kind, SequencePages& sequence, std::size_t pages) {
    std::vector<std::uint32_t>& held = sequence.held[kind].pages;
    while (held.size() < pages) {
        const auto page = pools_[kind]->take();
        if (!page) return false;
        held.push_back(*page);
    }
    return true;
}

bool BatchPages::reserve(SequencePages& sequence, std::size_t tokens) {
    bool has_all = true;
    for (std::size_t k = 0; k < kinds(); ++k) has_all = take_until(k, sequence, reach(k, sequence, tokens)) && has_all;
    return has_all;
}

bool BatchPages::have(SequencePages& sequence, std::size_t tokens) {
    bool has_all = true;
    for (std::size_t k = 0; k < kinds(); ++k) has_all = take_until(k, sequence, pages_for(tokens)) && has_all;
    return has_all;
}

bool BatchPages::are_free(const SequencePages& sequence, std::size_t tokens) const {
    for (std::size_t k = 0; k < kinds(); ++k)
        if (pages_for(tokens) > sequence.held[k].pages.size() + pools_[k]->free()) return false;
    return true;
}

void BatchPages::keep(SequencePages& sequence, std::size_t tokens, const PageKey& key) {
    for (; (sequence.kept + 1) * graph::kPageLen <= tokens; ++sequence.kept) {
        sequence.chain = chains_.next(sequence.chain, key(sequence.kept));
        for (std::size_t k = 0; k < kinds(); ++k)
            pools_[k]->keep(sequence.held[k].pages[sequence.kept], sequence.chain);
    }
}

void BatchPages::pass(SequencePages& sequence, std::size_t tokens) {
    for (std::size_t k = 0; k < kinds(); ++k) {
        SequencePages::Held& held = sequence.held[k];
        for (const std::size_t passed = kinds_[k].passed(tokens); held.passed < passed; ++held.passed)
            pools_[k]->give_back(std::exchange(held.pages[held.passed], 0));
    }
}

void BatchPages::drop_behind(SequencePages& sequence, std::size_t tokens) {
    for (std::size_t k = 0; k < kinds(); ++k) {
        std::vector<std::uint32_t>& pages = sequence.held[k].pages;
        for (; pages.size() > pages_for(tokens); pages.pop_back()) pools_[k]->give_back(pages.back());
    }
}

void BatchPages::release(SequencePages& sequence) {
    for (std::size_t k = 0; k < kinds(); ++k)
        for (const std::uint32_t page : sequence.held[k].pages | std::views::reverse)
            if (page > 0) pools_[k]->give_back(page);
    sequence = {};
}

}  // namespace vkformer::decoding
