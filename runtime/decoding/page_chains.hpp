// SPDX-License-Identifier: MIT
/// What pages of keys and values depend on: their own tokens and all before them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace vkformer::decoding {

/// Names of beginnings, one for each, whoever asks. Outlives them. Not thread-safe.
class PageChains {
public:
    struct Link;
    /// A beginning of whole pages, known as long as anybody has it or one that goes on from it; nullptr: of no page.
    using Chain = std::shared_ptr<Link>;

    PageChains() = default;
    PageChains(const PageChains&) = delete;
    PageChains& operator=(const PageChains&) = delete;

    /// The beginning that has one page more. A key has the page's tokens, and may have behind them what else its contents depend on.
    Chain next(const Chain& before, std::vector<std::int32_t> key);
    /// The same, nullptr where nobody has it.
    Chain find(const Chain& before, const std::vector<std::int32_t>& key) const;

private:
    using Key = std::pair<const Link*, std::vector<std::int32_t>>;
    std::map<Key, std::weak_ptr<Link>> known_;
};

}  // namespace vkformer::decoding
