// SPDX-License-Identifier: MIT
#include "vulkan/run_clock.hpp"

#include <algorithm>

namespace vkformer::vulkan {

RunClock::Time RunClock::expect(const DispatchKind& kind) {
    const std::lock_guard lock(mutex_);
    if (const auto known = us_.find(kind); known != us_.end()) return {known->second, true};
    const auto speed = speeds_.find(kind.pipeline);
    // Less work than was measured may leave the device half empty: it takes no longer than what was, at most.
    if (speed != speeds_.end()) return {std::max(kind.work, speed->second.work) * speed->second.us_per_work, false};
    return {thought_us(kind), false};
}

void RunClock::note(const DispatchKind& kind, double of_grid, double us, bool tells_speed) {
    const std::lock_guard lock(mutex_);
    const double whole_us = us / of_grid;
    us_[kind] = whole_us;
    if (!tells_speed || kind.work <= 0) return;
    if (Speed& speed = speeds_[kind.pipeline]; kind.work >= speed.work) speed = {kind.work, whole_us / kind.work};
}

}  // namespace vkformer::vulkan
