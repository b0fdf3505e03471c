// SPDX-License-Identifier: MIT
#include "vulkan/dispatch_clock.hpp"

#include <algorithm>

namespace vkformer::vulkan {
namespace {

constexpr double kUnknown = -1;
constexpr double kLeastUs = 0.1;  // below a timestamp's resolution; keeps ratios finite
/// A slice that took longer is believed sooner than one that was quicker: to be late costs a frame, to be early nothing.
constexpr double kTrustSlower = 0.5, kTrustQuicker = 0.125;
constexpr double kMostSlower = 4, kMostQuicker = 0.25;
/// The margin's quantile, and how far a slice moves it: up by the quantile's share of the step, down by the rest's, so that it rests where
/// that share of the slices lies below (stochastic approximation, Robbins and Monro 1951).
constexpr double kQuantile = 0.95, kMarginStep = 0.2, kMostMargin = 4;

}  // namespace

DispatchClock::Kind DispatchClock::number(const DispatchKind& kind) {
    const auto [found, is_new] = numbers_.try_emplace(kind, static_cast<Kind>(us_.size()));
    if (is_new) us_.push_back(kUnknown);
    return found->second;
}

void DispatchClock::learn(std::span<const Share> slice, double measured_us) {
    if (slice.empty()) return;
    // Alone, the time is the dispatch's own: new, or quicker than was thought, it is taken at its word. A first run may hold seconds of a
    // driver's compiling (lavapipe's), from which a damped step down would take a hundred slices to recover.
    if (slice.size() == 1) {
        const auto [kind, of_grid] = slice[0];
        const double whole_us = measured_us / of_grid;
        if (us_[kind] < 0 || whole_us < us_[kind]) {
            us_[kind] = std::max(whole_us, kLeastUs);
            return;
        }
    }
    double expected = 0;
    for (const auto& [kind, of_grid] : slice) expected += of_grid * std::max(us_[kind], kLeastUs);
    margin_ += kMarginStep * (measured_us > likely_us(expected) ? kQuantile : kQuantile - 1);
    margin_ = std::clamp(margin_, 1.0, kMostMargin);
    const double ratio = std::clamp(measured_us / expected, kMostQuicker, kMostSlower);
    const double factor = 1 + (ratio > 1 ? kTrustSlower : kTrustQuicker) * (ratio - 1);
    std::vector<Kind> kinds;
    for (const Share& share : slice) kinds.push_back(share.kind);
    std::ranges::sort(kinds);
    kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
    for (const Kind kind : kinds) us_[kind] = std::max(us_[kind], kLeastUs) * factor;
}

}  // namespace vkformer::vulkan
