// SPDX-License-Identifier: MIT
#include "cpu/parallel.hpp"

#include <cblas.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/platform/process.hpp"

namespace vkformer::cpu {
namespace {

struct Job {
    void (*work)(void*, std::size_t, std::size_t, std::size_t) = nullptr;
    void* context = nullptr;
    std::size_t count = 0, slice = 1;
};

/// A job at a time is open to the workers. Whoever of them comes too late for one finds it closed and touches nothing of it.
class Workers {
public:
    explicit Workers(std::size_t count) {
        threads_.reserve(count);
        try {
            for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this, i] { run(i + 1); });
        } catch (const std::system_error&) {  // no more threads: those that there are do the work
        }
    }
    ~Workers() {
        is_ending_ = true;
        number_.fetch_add(1);
        number_.notify_all();
        const bool is_forked = platform::process_id() != process_;  // the threads are the parent's
        for (std::thread& thread : threads_) is_forked ? thread.detach() : thread.join();
    }
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    /// False: another thread's job is open.
    bool try_do(const Job& job) {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock) return false;
        job_ = job;
        next_ = 0;
        error_ = nullptr;
        const std::uint32_t number = number_.load() + 1;
        open_ = number;
        number_ = number;
        number_.notify_all();
        do_slices(0);
        open_ = 0;
        await_others();
        if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
        return true;
    }

private:
    void do_slices(std::size_t thread) noexcept {
        try {
            for (std::size_t first = next_.fetch_add(job_.slice); first < job_.count;
                 first = next_.fetch_add(job_.slice))
                job_.work(job_.context, first, std::min(first + job_.slice, job_.count), thread);
        } catch (...) {
            next_ = job_.count;
            const std::scoped_lock lock(error_mutex_);
            error_ = std::current_exception();
        }
    }

    void run(std::size_t thread) {
        std::uint32_t seen = 0;
        for (;;) {
            seen = await_other_than(seen);
            if (is_ending_) return;
            inside_.fetch_add(1);
            if (open_.load() == seen) do_slices(thread);
            inside_.fetch_sub(1);
        }
    }

    /// Their last slices take microseconds; to yield at once would hand the core to another program for milliseconds.
    void await_others() const {
        for (int i = 0; inside_.load() != 0; ++i)
            if (i < kSpins)
                pause();
            else
                std::this_thread::yield();
    }

    /// A model's products follow each other within microseconds: waking a thread would take longer.
    std::uint32_t await_other_than(std::uint32_t seen) const {
        for (int i = 0; i < kSpins; ++i) {
            const std::uint32_t number = number_.load(std::memory_order_acquire);
            if (number != seen) return number;
            pause();
        }
        number_.wait(seen);
        return number_.load();
    }

    static void pause() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }

    static constexpr int kSpins = 4000;  // some 80 µs
    std::mutex mutex_, error_mutex_;
    Job job_;
    std::exception_ptr error_;
    std::atomic<std::size_t> next_ = 0;
    std::atomic<std::uint32_t> number_ = 0, open_ = 0;  // of the latest job, of the one that is open (0: none)
    std::atomic<int> inside_ = 0;                       // workers that may touch the job
    std::atomic<bool> is_ending_ = false;
    const int process_ = platform::process_id();
    std::vector<std::thread> threads_;
};

}  // namespace

std::size_t parallel_threads() {
    static const std::size_t count = static_cast<std::size_t>(std::max(1, openblas_get_num_threads()));
    return count;
}

void parallel_for(std::size_t count, std::size_t slice, void (*work)(void*, std::size_t, std::size_t, std::size_t),
                  void* context) {
    if (parallel_threads() > 1 && count > slice) {
        static Workers workers(parallel_threads() - 1);
        if (workers.try_do({work, context, count, slice})) return;
    }
    work(context, 0, count, 0);
}

}  // namespace vkformer::cpu
