// SPDX-License-Identifier: MIT
#include "serve/work_thread.hpp"

#include <algorithm>

namespace vkformer::serve {

void WorkThread::give(const void* owner, Work work) {
    {
        const std::lock_guard lock(mutex_);
        if (!has_ended_) {
            std::list<Work> piece;
            piece.push_back(std::exchange(work, nullptr));
            const auto place = std::ranges::find(waiting_, owner, [](const auto& one) { return one.first; });
            if (place == waiting_.end())
                waiting_.emplace_back(owner, std::move(piece));
            else
                place->second.splice(place->second.end(), piece);
        }
    }
    if (work) return work();
    changed_.notify_one();
}

void WorkThread::finish() {
    {
        const std::lock_guard lock(mutex_);
        is_ending_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
}

void WorkThread::run() {
    for (;;) {
        Work work;
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
            has_ended_ = waiting_.empty();
            if (has_ended_) return;
            waiting_.splice(waiting_.end(), waiting_, waiting_.begin());  // the next turn is another's
            auto& pieces = waiting_.back().second;
            work = std::move(pieces.front());
            pieces.pop_front();
            if (pieces.empty()) waiting_.pop_back();
        }
        work();
    }
}

}  // namespace vkformer::serve
