// SPDX-License-Identifier: MIT
/// Responses that later requests may go on from: in memory, the last ones.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "serve/tools.hpp"

namespace vkformer::serve {

struct KeptResponse {
    Talk talk;         ///< with the answer, without instructions
    std::string body;  ///< as it was sent
};

/// May be used from several threads.
class ResponseStore {
public:
    explicit ResponseStore(std::size_t most_bytes = std::size_t{64} << 20) : most_bytes_(most_bytes) {}

    /// nullptr where there is none. Whoever is found is the last to go.
    std::shared_ptr<const KeptResponse> find(std::string_view id) const;
    /// Those that were not asked for longest make room.
    void keep(std::string id, KeptResponse response);

private:
    struct Entry {
        std::string id;
        std::size_t bytes = 0;
        std::shared_ptr<const KeptResponse> response;
    };
    std::size_t most_bytes_;
    mutable std::mutex mutex_;
    mutable std::list<Entry> entries_;  // the one that was asked for last is the first
    std::unordered_map<std::string_view, std::list<Entry>::iterator> by_id_;  // of the entries' own texts
    std::size_t bytes_ = 0;
};

}  // namespace vkformer::serve
