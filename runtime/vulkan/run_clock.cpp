// SPDX-License-Identifier: MIT
#include "vulkan/run_clock.hpp"

#include <algorithm>

namespace vkformer::vulkan {
namespace {

/// Half a multiply–add a nanosecond: a fiftieth of what a Raspberry Pi 4's GPU could do (32 GFLOP/s by its makers).
constexpr double kUnknownUsPerWork = 1 / 500.0;

}  // namespace

RunClock::Time RunClock::expect(const DispatchKind& kind, double work) {
    const std::lock_guard lock(mutex_);
    if (const auto known = us_.find(kind); known != us_.end()) return {known->second, true};
    const auto speed = speeds_.find(kind.pipeline);
    // Less work than was measured may leave the device half empty: it takes no longer than what was, at most.
    if (speed != speeds_.end()) return {std::max(work, speed->second.work) * speed->second.us_per_work, false};
    return {work * kUnknownUsPerWork, false};
}

void RunClock::note(const DispatchKind& kind, double work, double of_grid, double us) {
    const std::lock_guard lock(mutex_);
    const double whole_us = us / of_grid;
    us_[kind] = whole_us;
    if (Speed& speed = speeds_[kind.pipeline]; work > 0 && work >= speed.work) speed = {work, whole_us / work};
}

}  // namespace vkformer::vulkan
