// SPDX-License-Identifier: MIT
/// How long the steps of programs take on the device, learned from slices of them that were measured.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "vulkan/program.hpp"

namespace vkformer::vulkan {

/// Times of kinds of steps. A kind that was never measured has none; it is run alone once, for then the slice's time is its own.
class StepClock {
public:
    using Kind = std::uint32_t;

    /// The number of a kind, the same for equal ones.
    Kind number(const VulkanProgram::StepKind& kind);
    /// Microseconds; negative: never measured.
    double expected_us(Kind kind) const noexcept { return us_[kind]; }
    /// What a slice that is expected to take this long stays within nineteen times of twenty. On a device that is shared (the CPU's
    /// cores, or a GPU with other work) slices take longer than expected now and then, and a budget is kept only by leaving room.
    double likely_us(double expected_us) const noexcept { return expected_us * margin_; }
    /// A slice of these steps took so long. The error is shared out in proportion, damped, for one slice may have been
    /// disturbed; a step that was alone, and new or quicker than expected, is taken at its word.
    void learn(std::span<const Kind> slice, double measured_us);

private:
    std::map<VulkanProgram::StepKind, Kind> numbers_;
    std::vector<double> us_;
    double margin_ = 1;  // the 95 % quantile of measured over expected times, at least 1
};

}  // namespace vkformer::vulkan
