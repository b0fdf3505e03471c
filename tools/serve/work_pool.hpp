// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace vkformer::serve {

/// A few threads that do what they are given in the order in which it came, so that those who give it, the threads of the sockets, go on.
/// Who gives it says how much may wait.
class WorkPool {
public:
    /// It does not throw.
    using Work = std::function<void()>;
    /// One piece, and what it holds until it has been done, or is not wanted any more.
    class Ticket {
    public:
        explicit Ticket(Work work) : work_(std::move(work)) {}

    private:
        friend class WorkPool;
        Work work_;  // under the pool's mutex; empty: it was begun, or dropped
    };
    using TicketPtr = std::shared_ptr<Ticket>;

    explicit WorkPool(std::size_t threads);
    /// As finish.
    ~WorkPool() { finish(); }
    WorkPool(const WorkPool&) = delete;
    WorkPool& operator=(const WorkPool&) = delete;

    /// From any thread, once. What was dropped before is not done.
    void give(const TicketPtr& ticket);
    /// From any thread: what waits is not done, and what it holds is let go now; what was begun goes on.
    void drop(const TicketPtr& ticket);
    /// Waits for what was begun; what waits, and what is given from then on, is dropped.
    void finish();

private:
    void run();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::list<TicketPtr> waiting_;
    bool is_ending_ = false;
    std::vector<std::jthread> threads_;
};

}  // namespace vkformer::serve
