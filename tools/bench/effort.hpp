// SPDX-License-Identifier: MIT
/// How much work a measurement does on a device of which nobody knows yet how fast it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "vkformer/result.hpp"

namespace vkformer::bench {

/// Work, in any unit, that grows until a run of it takes long enough to be timed.
struct Growth {
    std::uint64_t first = 1;  ///< what the slowest device does at once
    std::uint64_t most = 1;   ///< enough for the fastest
    double seconds = 0;       ///< what a run should take
};

/// Work whose run takes between half of `seconds` and all of it, or `first` where that takes longer already, or `most` where that
/// takes less. `run` does the work it is given and returns its seconds; its last call was with what is returned. As far as time
/// is proportional to work, all runs together take at most twice `seconds`, or the first one alone. Errors: those of `run`.
Result<std::uint64_t> grow(const Growth& growth, const std::function<Result<double>(std::uint64_t)>& run);

using Clock = std::function<double()>;  ///< seconds since any moment
double steady_seconds();

/// A part of a budget.
class Part {
public:
    Part(double end, Clock clock) : end_(end), clock_(std::move(clock)) {}
    /// Seconds; 0 where it is used up.
    double left() const;

private:
    double end_;
    Clock clock_;
};

/// Time that several measurements share, one after the other: what one leaves is for those after it, and what one takes too much
/// is theirs, too.
class Budget {
public:
    Budget(double seconds, std::size_t parts, Clock clock = steady_seconds);
    /// Begins the next part: its share of what is left.
    Part next();

private:
    double end_;
    std::size_t parts_;  // not begun
    Clock clock_;
};

}  // namespace vkformer::bench
