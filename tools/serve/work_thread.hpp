// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

namespace vkformer::serve {

/// A thread that does what it is given, so that those who give it, a model's thread, go on: of each owner in order, and one piece of each
/// in turn, so that nobody's many pieces hold up the others'.
class WorkThread {
public:
    using Work = std::function<void()>;

    WorkThread() : thread_([this] { run(); }) {}
    /// As finish.
    ~WorkThread() { finish(); }
    WorkThread(const WorkThread&) = delete;
    WorkThread& operator=(const WorkThread&) = delete;

    /// From any thread. The work does not throw.
    void give(const void* owner, Work work);
    /// Waits for all that was given; what is given from then on is done by who gives it, at once.
    void finish();

private:
    void run();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::list<std::pair<const void*, std::list<Work>>> waiting_;  // by owner, each with some; whose turn it is first
    bool is_ending_ = false, has_ended_ = false;
    std::thread thread_;
};

}  // namespace vkformer::serve
