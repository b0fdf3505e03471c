// SPDX-License-Identifier: MIT
#include "bench/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "support/catch.h"

namespace vkformer::tests {
namespace {

using namespace bench;

TEST_CASE("median and median absolute deviation", "[bench][statistics]") {
    CHECK(median_of({3}) == 3);
    CHECK(median_of({9, 1, 4}) == 4);
    CHECK(median_of({4, 1, 9, 2}) == 3);
    const Summary summary = summarise({1, 2, 3, 4, 100});
    CHECK(summary.median == 3);
    CHECK(summary.mad == 1);
    CHECK(summary.runs == 5);
}

// Counted from 1, as in tables of the sign test's interval: the binomial rule with equal tails.
TEST_CASE("the order statistics that bound a median", "[bench][statistics]") {
    const auto [count, low, high] = GENERATE(Catch::Generators::table<std::size_t, std::size_t, std::size_t>(
        {{1, 1, 1}, {5, 1, 5}, {6, 1, 6}, {10, 2, 9}, {20, 6, 15}, {50, 18, 33}, {100, 40, 61}}));
    CAPTURE(count);
    CHECK(median_ranks(count).low + 1 == low);
    CHECK(median_ranks(count).high + 1 == high);
}

TEST_CASE("ranks of very many samples do not underflow", "[bench][statistics]") {
    const Ranks ranks = median_ranks(100'000);
    // 50000 − 1.96 · √100000 / 2 = 49690
    CHECK(std::abs(static_cast<double>(ranks.low) - 49690) < 5);
    CHECK(ranks.low + ranks.high == 99'999);
}

TEST_CASE("the interval holds the true median in at least 95 of 100 experiments", "[bench][statistics]") {
    const auto count = GENERATE(Catch::Generators::values<std::size_t>({6, 11, 40}));
    std::mt19937 random(1);
    std::exponential_distribution<double> times(1);  // skewed, as times are; median ln 2
    int held = 0;
    constexpr int kExperiments = 4000;
    for (int i = 0; i < kExperiments; ++i) {
        std::vector<double> samples(count);
        std::ranges::generate(samples, [&] { return times(random); });
        const Interval interval = summarise(samples).interval;
        held += interval.low <= std::log(2.0) && std::log(2.0) <= interval.high;
    }
    CAPTURE(count);
    CHECK(held > 0.94 * kExperiments);  // 0.95 less three standard errors of the experiment
    CHECK(held < 0.995 * kExperiments);
}

TEST_CASE("a sampler stops when the median is known well enough, or time is up", "[bench][statistics]") {
    const Stopping stopping{.relative_bound = 0.05, .max_seconds = 1, .min_runs = 10, .max_runs = 50};
    Sampler steady(stopping), noisy(stopping), empty(stopping);
    for (int i = 0; i < 9; ++i) steady.add(100 + i % 2);
    CHECK_FALSE(steady.done(0.1));
    steady.add(100);
    CHECK(steady.done(0.1));
    CHECK(steady.summary().stable);
    Sampler early({.relative_bound = 0.05, .min_seconds = 0.5, .max_seconds = 1});
    for (int i = 0; i < 100; ++i) early.add(100);
    CHECK_FALSE(early.done(0.4));
    CHECK(early.done(0.5));

    for (int i = 0; i < 20; ++i) noisy.add(i % 2 ? 100 : 200);
    CHECK_FALSE(noisy.done(0.1));
    CHECK(noisy.done(1.1));
    CHECK_FALSE(noisy.summary().stable);
    for (int i = 0; i < 30; ++i) noisy.add(i % 2 ? 100 : 200);
    CHECK(noisy.done(0.1));  // max_runs

    CHECK(empty.summary().runs == 0);
    CHECK_FALSE(empty.done(0.1));
    CHECK(empty.done(1.1));
}

}  // namespace
}  // namespace vkformer::tests
