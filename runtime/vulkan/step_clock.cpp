// SPDX-License-Identifier: MIT
#include "vulkan/step_clock.hpp"

#include <algorithm>

namespace vkformer::vulkan {
namespace {

constexpr double kUnknown = -1;
constexpr double kLeastUs = 0.1;  // below a timestamp's resolution; keeps ratios finite
/// A slice that took longer is believed sooner than one that was quicker: to be late costs a frame, to be early nothing.
constexpr double kTrustSlower = 0.5, kTrustQuicker = 0.125;
constexpr double kMostSlower = 4, kMostQuicker = 0.25;

}  // namespace

StepClock::Kind StepClock::number(const VulkanProgram::StepKind& kind) {
    const auto [found, is_new] = numbers_.try_emplace(kind, static_cast<Kind>(us_.size()));
    if (is_new) us_.push_back(kUnknown);
    return found->second;
}

void StepClock::learn(std::span<const Kind> slice, double measured_us) {
    if (slice.empty()) return;
    // Alone, the time is the step's own: new, or quicker than was thought, it is taken at its word. A first run may hold seconds of a
    // driver's compiling (lavapipe's), from which a damped step down would take a hundred slices to recover.
    if (slice.size() == 1 && (us_[slice[0]] < 0 || measured_us < us_[slice[0]])) {
        us_[slice[0]] = std::max(measured_us, kLeastUs);
        return;
    }
    double expected = 0;
    for (const Kind kind : slice) expected += std::max(us_[kind], kLeastUs);
    const double ratio = std::clamp(measured_us / expected, kMostQuicker, kMostSlower);
    const double factor = 1 + (ratio > 1 ? kTrustSlower : kTrustQuicker) * (ratio - 1);
    std::vector<Kind> kinds(slice.begin(), slice.end());
    std::ranges::sort(kinds);
    kinds.erase(std::ranges::unique(kinds).begin(), kinds.end());
    for (const Kind kind : kinds) us_[kind] = std::max(us_[kind], kLeastUs) * factor;
}

}  // namespace vkformer::vulkan
