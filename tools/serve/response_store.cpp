// SPDX-License-Identifier: MIT
#include "serve/response_store.hpp"

#include <utility>

namespace vkformer::serve {

std::shared_ptr<const KeptResponse> ResponseStore::find(std::string_view id) const {
    const std::lock_guard lock(mutex_);
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->response;
}

void ResponseStore::keep(std::string id, KeptResponse response) {
    const std::size_t bytes = sizeof(Entry) + id.size() + response.body.size() + response.talk.bytes();
    if (bytes > most_bytes_) return;
    const std::lock_guard lock(mutex_);
    entries_.push_front({std::move(id), bytes, std::make_shared<const KeptResponse>(std::move(response))});
    by_id_.insert_or_assign(entries_.front().id, entries_.begin());
    bytes_ += bytes;
    for (; bytes_ > most_bytes_; entries_.pop_back()) {
        bytes_ -= entries_.back().bytes;
        by_id_.erase(entries_.back().id);
    }
}

}  // namespace vkformer::serve
