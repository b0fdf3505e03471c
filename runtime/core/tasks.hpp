// SPDX-License-Identifier: MIT
/// Independent pieces of work that take milliseconds each, such as compilations.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <vector>

namespace vkformer {

/// A thread, or, where the system gives no more of them, the one that asks for the result.
inline constexpr std::launch kOwnThread = std::launch::async | std::launch::deferred;

/// std::async of any work, compiled once. The result waits for it when it is destroyed.
inline std::future<void> start_task(std::launch where, std::function<void()> work) {
    return std::async(where, std::move(work));
}

/// Calls work(i) for every i < count, once, in any order: on this thread and on as many more as there are processors, which are started
/// for it. Returns when all are done. What `work` throws is thrown again here, and some calls are left out then.
template <class Work>
void run_tasks(std::size_t count, const Work& work) {
    std::atomic<std::size_t> next = 0;
    const auto take = [&] {
        for (std::size_t i = next++; i < count; i = next++) work(i);
    };
    const std::size_t processors = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::future<void>> others;  // a future waits when it is destroyed
    for (std::size_t i = 1; i < std::min(processors, count); ++i)
        others.push_back(start_task(kOwnThread, std::ref(take)));
    take();
    for (auto& other : others) other.get();
}

}  // namespace vkformer
