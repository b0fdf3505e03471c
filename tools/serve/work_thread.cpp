// SPDX-License-Identifier: MIT
#include "serve/work_thread.hpp"

#include <utility>

namespace vkformer::serve {

void WorkThread::give(Work work) {
    {
        const std::lock_guard lock(mutex_);
        if (!has_ended_) waiting_.push_back(std::exchange(work, nullptr));
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
            work = std::move(waiting_.front());
            waiting_.pop_front();
        }
        work();
    }
}

}  // namespace vkformer::serve
