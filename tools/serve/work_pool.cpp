// SPDX-License-Identifier: MIT
#include "serve/work_pool.hpp"

#include <utility>

namespace vkformer::serve {

WorkPool::WorkPool(std::size_t threads) {
    for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

void WorkPool::give(const TicketPtr& ticket) {
    std::list<TicketPtr> one = {ticket};
    Work unneeded;  // what it holds is let go without the lock
    {
        const std::lock_guard lock(mutex_);
        if (is_ending_) unneeded.swap(ticket->work_);
        if (!ticket->work_) return;
        waiting_.splice(waiting_.end(), one);
    }
    changed_.notify_one();
}

void WorkPool::drop(const TicketPtr& ticket) {
    Work unneeded;
    const std::lock_guard lock(mutex_);
    unneeded.swap(ticket->work_);
    std::erase(waiting_, ticket);
}

void WorkPool::finish() {
    std::list<TicketPtr> unneeded;
    {
        const std::lock_guard lock(mutex_);
        is_ending_ = true;
        unneeded.swap(waiting_);
    }
    changed_.notify_all();
    for (const TicketPtr& ticket : unneeded) drop(ticket);
    threads_.clear();
}

void WorkPool::run() {
    for (;;) {
        Work work;
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
            if (is_ending_) return;
            work.swap(waiting_.front()->work_);
            waiting_.pop_front();
        }
        work();
    }
}

}  // namespace vkformer::serve
