// SPDX-License-Identifier: MIT
/// What the programs of a device know of how long their dispatches take, and how long they may.
#pragma once

#include <map>
#include <mutex>

#include "vulkan/bound_dispatch.hpp"

namespace vkformer::vulkan {

struct RunLimits {
    double aim_us = 50'000;  ///< of device time in one submission
    /// What is expected to take longer, though it was never measured, is begun with a piece of it.
    double most_us = 500'000;
    bool cut_all = false;  ///< for tests: every grid that can be cut is, into parts of a workgroup or of a ninth of it
};

/// Thread-safe.
class RunClock {
public:
    /// Of what nothing is known of: two nanoseconds for a multiply–add, 32 times what a Raspberry Pi 4's GPU needs by its makers
    /// (32 GFLOP/s).
    static constexpr double thought_us(const DispatchKind& kind) noexcept { return kind.work / 500; }

    explicit RunClock(const RunLimits& limits) : limits_(limits) {}
    const RunLimits& limits() const noexcept { return limits_; }

    struct Time {
        double us = 0;
        bool is_measured = false;  ///< else an estimate, rather too long than too short
    };

    /// Never measured: at the speed at which the same pipeline did other work, or, where it did none, as thought_us.
    Time expect(const DispatchKind& kind);
    /// A share of the grid, above 0, took so long alone. It is taken at its word: a program whose runs turn out otherwise asks again.
    /// `tells_speed`: it did all the work of its kind.
    void note(const DispatchKind& kind, double of_grid, double us, bool tells_speed);

private:
    struct Speed {
        double work = 0;  // the most that was measured
        double us_per_work = 0;
    };
    const RunLimits limits_;
    std::mutex mutex_;
    std::map<DispatchKind, double> us_;
    std::map<VkPipeline, Speed> speeds_;
};

}  // namespace vkformer::vulkan
