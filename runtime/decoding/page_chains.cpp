// SPDX-License-Identifier: MIT
#include "decoding/page_chains.hpp"

namespace vkformer::decoding {

struct PageChains::Link {
    std::map<Key, std::weak_ptr<Link>>& known;
    std::map<Key, std::weak_ptr<Link>>::iterator place;
    Chain before;

    Link(std::map<Key, std::weak_ptr<Link>>& all, std::map<Key, std::weak_ptr<Link>>::iterator at, Chain from)
        : known(all), place(at), before(std::move(from)) {}
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;
    /// One after the other: a chain may be longer than calls may be deep.
    ~Link() {
        known.erase(place);
        for (Chain last = std::move(before); last && last.use_count() == 1;) last = std::move(last->before);
    }
};

PageChains::Chain PageChains::next(const Chain& before, std::vector<std::int32_t> key) {
    const auto [place, is_new] = known_.try_emplace({before.get(), std::move(key)});
    if (!is_new) return place->second.lock();
    auto made = std::make_shared<Link>(known_, place, before);
    place->second = made;
    return made;
}

PageChains::Chain PageChains::find(const Chain& before, const std::vector<std::int32_t>& key) const {
    const auto place = known_.find({before.get(), key});
    return place == known_.end() ? nullptr : place->second.lock();
}

}  // namespace vkformer::decoding
