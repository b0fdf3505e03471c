// SPDX-License-Identifier: MIT
#include "bench/statistics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace vkformer::bench {

double median_of(std::vector<double> values) {
    assert(!values.empty());
    std::ranges::sort(values);
    const std::size_t half = values.size() / 2;
    return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Ranks median_ranks(std::size_t count) {
    assert(count >= 1);
    // The largest `low` with P(B ≤ low) ≤ 2.5 %, B ~ Binomial(count, 1/2); in logarithms, since 2^-count underflows.
    const double n = static_cast<double>(count);
    double below = 0;
    std::size_t low = 0;
    for (std::size_t k = 0; 2 * k < count; ++k) {
        const double i = static_cast<double>(k);
        below += std::exp(std::lgamma(n + 1) - std::lgamma(i + 1) - std::lgamma(n - i + 1) - n * std::log(2.0));
        if (below > 0.025) break;
        low = k;
    }
    return {low, count - 1 - low};
}

Summary summarise(std::vector<double> values) {
    assert(!values.empty());
    std::ranges::sort(values);
    const Ranks ranks = median_ranks(values.size());
    Summary summary{.median = median_of(values),
                    .least = values.front(),
                    .interval = {values[ranks.low], values[ranks.high]},
                    .runs = values.size()};
    for (double& value : values) value = std::abs(value - summary.median);
    summary.mad = median_of(std::move(values));
    return summary;
}

bool Sampler::is_stable(const Summary& summary) const {
    return summary.runs >= kMinRuns &&
           (summary.interval.high - summary.interval.low) / 2 <= stopping_.relative_bound * summary.median;
}

bool Sampler::done(double elapsed_seconds) const {
    if (samples_.empty()) return elapsed_seconds >= stopping_.max_seconds;
    if (elapsed_seconds >= stopping_.max_seconds || samples_.size() >= stopping_.max_runs) return true;
    return elapsed_seconds >= stopping_.min_seconds && samples_.size() >= stopping_.min_runs &&
           is_stable(summarise(samples_));
}

Summary Sampler::summary() const {
    if (samples_.empty()) return {};
    Summary result = summarise(samples_);
    result.stable = is_stable(result);
    return result;
}

}  // namespace vkformer::bench
