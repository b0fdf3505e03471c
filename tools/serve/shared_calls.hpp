// SPDX-License-Identifier: MIT
/// Requests of many clients to one model that answers lists: those that wait share a call.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "vkformer/result.hpp"

namespace vkformer::serve {

/// How long a call lets those that the one before has answered ask again, while others wait. Without it clients that all ask again at
/// once fall into two halves that run one after the other for ever: who came first alone, and everybody else.
struct Patience {
    double of_call = 1.0 / 32;  ///< of the time that the call before took
    std::chrono::duration<double> most{0.05};
};

/// A thread that runs a model. In each call every waiting request has its share, in the order in which they came: one with many inputs keeps
/// none waiting that has few.
/// `Group`: what requests must have alike to share a call.
template <class Input, class Output, class Group = std::string>
class SharedCalls {
public:
    using Run = std::function<Result<std::vector<Output>>(std::span<const Input>)>;
    using Check = std::function<Result<void>(const Input&)>;
    /// Told on the model's thread.
    using OnEnd = std::function<void(Result<std::vector<Output>>)>;

    /// One request.
    class Ticket {
        friend class SharedCalls;
        std::atomic<bool> is_cancelled_{false};
        bool is_at_work_ = false;  // the model's thread looks at it; under the mutex, as are the inputs of others
        Group group_;
        std::vector<Input> inputs_;
        std::vector<Output> outputs_;
        OnEnd on_end_;
        bool is_checked_ = false;
    };
    using TicketPtr = std::shared_ptr<Ticket>;

    /// `run` has at most `batch` inputs, and is asked for those that `check` takes; both on the thread of this.
    SharedCalls(std::size_t batch, Run run, Check check, std::function<void(std::size_t inputs)> on_call,
                const Patience& patience = {})
        : batch_(batch),
          run_(std::move(run)),
          check_(std::move(check)),
          on_call_(std::move(on_call)),
          patience_(patience) {
        thread_ = std::thread([this] { work(); });
    }
    /// What waits ends with Cancelled.
    ~SharedCalls() {
        {
            const std::lock_guard lock(mutex_);
            is_ending_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }
    SharedCalls(const SharedCalls&) = delete;
    SharedCalls& operator=(const SharedCalls&) = delete;

    /// `group`: requests of one alone share a call.
    TicketPtr submit(std::vector<Input> inputs, OnEnd on_end, Group group = {}) {
        auto ticket = std::make_shared<Ticket>();
        ticket->inputs_ = std::move(inputs);
        ticket->on_end_ = std::move(on_end);
        ticket->group_ = std::move(group);
        {
            const std::lock_guard lock(mutex_);
            queue_.push_back(ticket);
        }
        changed_.notify_all();
        return ticket;
    }

    /// Nobody waits for it any more: where it waits, it leaves the queue now, with its inputs and without a word; else it ends with an
    /// error that nobody needs, and the call ends that has no other.
    void cancel(const TicketPtr& ticket) {
        std::vector<Input> inputs;
        OnEnd on_end;  // what it holds is let go without the lock
        const std::lock_guard lock(mutex_);
        ticket->is_cancelled_ = true;
        if (ticket->is_at_work_) return;
        std::erase(queue_, ticket);
        inputs.swap(ticket->inputs_);
        on_end.swap(ticket->on_end_);
    }

    std::size_t waiting() const {
        const std::lock_guard lock(mutex_);
        return queue_.size();
    }

    /// For the model's should_stop: whether nobody waits for the call that runs.
    bool should_stop() const {
        const std::lock_guard lock(mutex_);
        return is_ending_ || (!current_.empty() && std::ranges::all_of(current_, [](const TicketPtr& ticket) {
                   return ticket->is_cancelled_.load();
               }));
    }
    /// Of the call that runs; for `run`.
    const Group& group() const noexcept { return group_; }

private:
    using Clock = std::chrono::steady_clock;
    struct Share {
        TicketPtr ticket;
        std::size_t inputs = 0;
    };

    void work() {
        for (;;) {
            std::vector<TicketPtr> waiting;
            {
                std::unique_lock lock(mutex_);
                changed_.wait(lock, [this] { return is_ending_ || !queue_.empty(); });
                changed_.wait_until(lock, patient_until_,
                                    [this] { return is_ending_ || has_other_turn() || requests_of_group() >= known_; });
                if (is_ending_) break;
                waiting.assign(queue_.begin(), queue_.end());
                for (const TicketPtr& ticket : waiting) ticket->is_at_work_ = true;
            }
            for (const TicketPtr& ticket : waiting) admit(ticket);
            const Clock::time_point begin = Clock::now();
            call(shares());
            const std::chrono::duration<double> took = Clock::now() - begin;
            patient_until_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                std::min(took * patience_.of_call, patience_.most));
        }
        for (const TicketPtr& ticket : std::vector<TicketPtr>(queue_.begin(), queue_.end()))
            end(ticket, Error{ErrorCode::Cancelled, "the server is being stopped"});
    }

    /// Of the group of the last call.
    std::size_t requests_of_group() const {
        return static_cast<std::size_t>(
            std::ranges::count_if(queue_, [this](const TicketPtr& ticket) { return ticket->group_ == group_; }));
    }
    /// Whether the next call is that of another group.
    bool has_other_turn() const { return !queue_.empty() && queue_.front()->group_ != group_; }

    void admit(const TicketPtr& ticket) {
        if (ticket->is_cancelled_) return end(ticket, Error{ErrorCode::Cancelled, "nobody waits for it"});
        if (ticket->is_checked_) return;
        ticket->is_checked_ = true;
        for (const Input& input : ticket->inputs_)
            if (auto checked = check_(input); !checked) return end(ticket, std::move(checked).error());
        if (ticket->inputs_.empty()) end(ticket, std::vector<Output>());
    }

    /// Those of the group of the first.
    std::vector<Share> shares() {
        std::vector<TicketPtr> gone;  // meanwhile
        const std::lock_guard lock(mutex_);
        std::ranges::copy_if(queue_, std::back_inserter(gone),
                             [](const auto& one) { return one->is_cancelled_.load(); });
        for (const TicketPtr& ticket : gone) std::erase(queue_, ticket);
        for (const TicketPtr& ticket : queue_) ticket->is_at_work_ = false;
        std::vector<Share> shares;
        for (const TicketPtr& ticket : queue_) {
            if (!ticket->is_checked_ || shares.size() == batch_) continue;  // it came since
            if (shares.empty() || ticket->group_ == shares.front().ticket->group_) shares.push_back({ticket, 0});
        }
        std::size_t left = batch_;
        for (bool has_given = true; left > 0 && has_given;) {
            has_given = false;
            for (Share& share : shares) {
                if (left == 0) break;
                if (share.ticket->outputs_.size() + share.inputs == share.ticket->inputs_.size()) continue;
                ++share.inputs;
                --left;
                has_given = true;
            }
        }
        current_.clear();
        for (const Share& share : shares) {
            current_.push_back(share.ticket);
            share.ticket->is_at_work_ = true;
        }
        group_ = shares.empty() ? Group() : shares.front().ticket->group_;
        return shares;
    }

    void call(const std::vector<Share>& shares) {
        std::vector<Input> inputs;
        for (const auto& [ticket, count] : shares) {
            const auto first = ticket->inputs_.begin() + static_cast<std::ptrdiff_t>(ticket->outputs_.size());
            inputs.insert(inputs.end(), first, first + static_cast<std::ptrdiff_t>(count));
        }
        if (inputs.empty()) return;
        on_call_(inputs.size());
        auto made = run_(inputs);
        {
            const std::lock_guard lock(mutex_);
            known_ = std::min(requests_of_group(), batch_);
        }
        if (!made && made.error().code == ErrorCode::NotANumber && shares.size() > 1) {
            for (const Share& share : shares) call({share});  // whose it is, and nobody else's
            return;
        }
        if (!made) {
            for (const auto& [ticket, count] : shares)
                if (made.error().code != ErrorCode::Cancelled || ticket->is_cancelled_ || is_ending())
                    end(ticket, made.error());
            return;
        }
        std::size_t next = 0;
        for (const auto& [ticket, count] : shares) {
            for (std::size_t i = 0; i < count; ++i) ticket->outputs_.push_back(std::move((*made)[next++]));
            if (ticket->outputs_.size() == ticket->inputs_.size()) end(ticket, std::move(ticket->outputs_));
        }
    }

    bool is_ending() const {
        const std::lock_guard lock(mutex_);
        return is_ending_;
    }

    void end(const TicketPtr& ticket, Result<std::vector<Output>> result) {
        OnEnd on_end;
        {
            const std::lock_guard lock(mutex_);
            std::erase(queue_, ticket);
            std::erase(current_, ticket);
            on_end.swap(ticket->on_end_);
        }
        if (on_end) on_end(std::move(result));
    }

    const std::size_t batch_;
    const Run run_;
    const Check check_;
    const std::function<void(std::size_t)> on_call_;
    const Patience patience_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<TicketPtr> queue_;
    std::vector<TicketPtr> current_;
    Group group_;
    bool is_ending_ = false;
    std::size_t known_ =
        0;  ///< requests of its group when the last call was over: those that it had, and those that waited
    Clock::time_point patient_until_{};  ///< for as many to be there again
    std::thread thread_;
};

}  // namespace vkformer::serve
