// SPDX-License-Identifier: MIT
/// What can be said about a time from repeated measurements, without a guess about their distribution.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace vkformer::bench {

struct Interval {
    double low = 0, high = 0;
};

/// Median, median absolute deviation, and an interval that holds the true median with at least 95 % confidence.
struct Summary {
    double median = 0, mad = 0;
    double least = 0;      ///< the smallest sample
    Interval interval;     ///< below kMinRuns runs: the range of the samples, which is less certain
    std::size_t runs = 0;  ///< 0: nothing was measured
    bool stable = false;   ///< the interval became as narrow as was asked for
};

/// Fewer samples give no 95 % interval at all: 1 − 2·(1/2)^5 is 94 %.
inline constexpr std::size_t kMinRuns = 6;

/// The middle element, or the mean of the two in the middle. Requires a value.
double median_of(std::vector<double> values);

/// Which order statistics (from 0) bound the median of `count` independent samples with at least 95 % confidence: the
/// number of samples below the median is Binomial(count, 1/2). Requires count ≥ 1.
/// Source: Conover 1999, Practical Nonparametric Statistics, section 3.2; Le Boudec 2010, Performance Evaluation, theorem 2.1.
struct Ranks {
    std::size_t low, high;
};
Ranks median_ranks(std::size_t count);

/// Requires a value. `stable` is left false: it is the sampler's to say.
Summary summarise(std::vector<double> values);

/// When to stop measuring.
struct Stopping {
    double relative_bound = 0.02;  ///< stop when the interval's half width is at most this part of the median
    double min_seconds = 0;        ///< not before: samples taken at once know nothing of what changes slowly
    double max_seconds = 2;        ///< stop then in any case
    std::size_t min_runs = 10, max_runs = 2000;
};

/// Collects samples of one quantity until they are stable.
class Sampler {
public:
    explicit Sampler(const Stopping& stopping) : stopping_(stopping) {}
    void add(double sample) { samples_.push_back(sample); }
    std::size_t count() const noexcept { return samples_.size(); }
    bool done(double elapsed_seconds) const;
    /// Summarises what was added; no runs if nothing was.
    Summary summary() const;

private:
    bool is_stable(const Summary& summary) const;

    Stopping stopping_;
    std::vector<double> samples_;
};

}  // namespace vkformer::bench
