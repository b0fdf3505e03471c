// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace vkformer::serve {

/// A thread that does what it is given, one after the other, so that those who give it, a model's thread, go on.
class WorkThread {
public:
    using Work = std::function<void()>;

    WorkThread() : thread_([this] { run(); }) {}
    /// As finish.
    ~WorkThread() { finish(); }
    WorkThread(const WorkThread&) = delete;
    WorkThread& operator=(const WorkThread&) = delete;

    /// From any thread. The work does not throw.
    void give(Work work);
    /// Waits for all that was given; what is given from then on is done by who gives it, at once.
    void finish();

private:
    void run();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Work> waiting_;
    bool is_ending_ = false, has_ended_ = false;
    std::thread thread_;
};

}  // namespace vkformer::serve
