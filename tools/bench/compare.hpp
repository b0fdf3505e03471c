// SPDX-License-Identifier: MIT
/// What changed between two reports, beyond noise.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "bench/report.hpp"

namespace vkformer::bench {

enum class Change : std::uint8_t {
    faster,
    slower,
    same,          ///< within noise
    too_few_runs,  ///< in one of the two: their interval is none
    now_wrong,     ///< right before, now wrong or not running
    now_right,     ///< the other way round
    incomparable   ///< wrong or not timed in both
};
std::string_view to_string(Change change) noexcept;

struct Comparison {
    std::string name;  ///< op, shape, dtype, cache
    std::string variant_before, variant_after;
    double before_ns = 0, after_ns = 0;
    double ratio = 0;   ///< after / before: below 1 is faster
    Interval interval;  ///< of the ratio, 95 %
    Change change = Change::incomparable;
};

struct ComparisonReport {
    std::vector<Comparison> cases;
    std::vector<std::string> only_before, only_after;  ///< cases that the other report lacks
};

/// after / before with a 95 % interval from the two medians' own intervals, in logarithms: the limits of a difference of two
/// estimates are recovered from their limits (MOVER: Zou and Donner 2008; Newcombe 1998).
Interval ratio_interval(const Summary& before, const Summary& after);

/// Faster or slower: the interval of the ratio leaves 1 out, and the ratio differs from 1 by at least `noise`, which stands for
/// what differs from one process to the next and no interval within a process can know.
ComparisonReport compare(const Report& before, const Report& after, double noise);

/// Empty where the reports are of the same device; else what differs, for a person.
std::string device_difference(const Report& before, const Report& after);

std::string as_text(const ComparisonReport& report);
nlohmann::json as_json(const ComparisonReport& report);

}  // namespace vkformer::bench
