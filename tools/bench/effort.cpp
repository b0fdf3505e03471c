// SPDX-License-Identifier: MIT
#include "bench/effort.hpp"

#include <algorithm>
#include <chrono>

#include "core/try.hpp"

namespace vkformer::bench {

Result<std::uint64_t> grow(const Growth& growth, const std::function<Result<double>(std::uint64_t)>& run) {
    std::uint64_t work = std::min(growth.first, growth.most);
    for (;;) {
        VKFORMER_TRY(const double seconds, run(work));
        if (work >= growth.most || 2 * seconds > growth.seconds) return work;
        // 16 at most: the time of a small run is mostly that of its launch, and says little about a much larger one
        const double factor = seconds > 0 ? std::min(growth.seconds / seconds, 16.0) : 16.0;
        const double next = factor * static_cast<double>(work);
        work = next < static_cast<double>(growth.most) ? static_cast<std::uint64_t>(next) : growth.most;
    }
}

double steady_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Part::left() const { return std::max(0.0, end_ - clock_()); }

Budget::Budget(double seconds, std::size_t parts, Clock clock)
    : end_(clock() + seconds), parts_(parts), clock_(std::move(clock)) {}

Part Budget::next() {
    const double now = clock_();
    const double share = std::max(0.0, end_ - now) / static_cast<double>(std::max<std::size_t>(parts_, 1));
    if (parts_ > 0) --parts_;
    return {now + share, clock_};
}

}  // namespace vkformer::bench
