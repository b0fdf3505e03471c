// SPDX-License-Identifier: MIT
/// How long dispatches take on the device, learned from slices of programs that were measured.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "vulkan/bound_dispatch.hpp"

namespace vkformer::vulkan {

/// Times of kinds of dispatches. A kind that was never measured has none; it is run alone once, for then the slice's time is its own.
class DispatchClock {
public:
    using Kind = std::uint32_t;
    struct Share {
        Kind kind;
        double of_grid = 1;  ///< of its workgroups, above 0
    };

    /// The number of a kind, the same for equal ones.
    Kind number(const DispatchKind& kind);
    /// Microseconds of a whole grid; negative: never measured.
    double expected_us(Kind kind) const noexcept { return us_[kind]; }
    /// What a slice that is expected to take this long stays within nineteen times of twenty. On a device that is shared (the CPU's
    /// cores, or a GPU with other work) slices take longer than expected now and then, and a budget is kept only by leaving room.
    double likely_us(double expected_us) const noexcept { return expected_us * margin_; }
    /// A slice of these took so long. The error is shared out in proportion, damped, for one slice may have been disturbed; a dispatch
    /// that was alone, and new or quicker than expected, is taken at its word.
    void learn(std::span<const Share> slice, double measured_us);

private:
    std::map<DispatchKind, Kind> numbers_;
    std::vector<double> us_;
    double margin_ = 1;  // the 95 % quantile of measured over expected times, at least 1
};

}  // namespace vkformer::vulkan
