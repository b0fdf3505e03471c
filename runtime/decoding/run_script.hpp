// SPDX-License-Identifier: MIT
/// Runs a script's jobs and waits for each: what it chose decides what comes next.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>

#include "decoding/script.hpp"

namespace vkformer::decoding {

/// Where the programs of a session keep what they share.
struct SessionStores {
    /// `shared`: weights that others use, too; null: its own.
    explicit SessionStores(graph::Backend& backend, std::shared_ptr<graph::TensorStore> shared = nullptr)
        : weights(shared ? std::move(shared) : backend.make_store()), states(backend.make_store()) {}
    std::shared_ptr<graph::TensorStore> weights, states;
};

/// How many steps are queued before the host looks at what they chose.
class StepQueue {
public:
    static constexpr std::uint32_t kMost = 16;
    /// Steps are queued so that a submit takes about this long: short enough for tokens to flow, long enough that the host's part
    /// (a submit, a read) is nothing beside it.
    static constexpr double kSubmitSeconds = 0.05;
    enum class Growth : std::uint8_t {
        by_time,   ///< from one on, by what the ones before took: tokens are waited for
        doubling,  ///< from four on: a finished batch wastes half of them on average
    };
    /// Where programs run in a submit, one step at a time.
    StepQueue(Growth growth, const graph::Backend& backend, double submit_seconds = kSubmitSeconds) noexcept
        : growth_(growth),
          submit_seconds_(submit_seconds),
          most_(backend.runs_in_submit() ? 1 : kMost),
          count_(growth == Growth::by_time ? 1 : std::min(4u, most_)) {}

    std::uint32_t count() const noexcept { return count_; }
    void took(std::uint32_t count, double seconds) noexcept;

private:
    Growth growth_;
    double submit_seconds_;
    std::uint32_t most_, count_;
};

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) noexcept;

/// If that was not done before. Errors: those of Backend::compile.
Result<void> compile(Part& part, graph::Backend& backend, const SessionStores& stores);
/// One job, whose part is compiled if it was not, waited for and taken; how long its runs took. Errors: those of the script and the
/// backend.
Result<double> run_job(Script& script, const Job& job, graph::Backend& backend, const SessionStores& stores);
/// Until the script hands out nothing. Errors: as above; Cancelled, by Backend::check_wanted.
Result<void> run_script(Script& script, graph::Backend& backend, const SessionStores& stores, StepQueue& queue);

}  // namespace vkformer::decoding
