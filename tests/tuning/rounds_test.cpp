// SPDX-License-Identifier: MIT
/// Trials in rounds, with times that are made up.
#include "tuning/ladder.hpp"

#include <algorithm>
#include <limits>

#include "support/catch.h"

namespace vkformer::tests {
namespace {

using tuning::Trial;

/// A machine on which everything takes thrice as long between two moments.
struct Machine {
    double slow_from, slow_until;
    double now = 0;

    double run(double us) {
        const double factor = now >= slow_from && now < slow_until ? 3 : 1;
        now += us * factor;
        return us * factor;
    }
};

}  // namespace

TEST_CASE("a slow moment changes no verdict", "[tuning]") {
    // The episode begins anywhere and is as long as two of the three rounds.
    const double round = 100 + 150 + 140, all = 4 * round;
    for (double from = -2 * round; from < all; from += 7) {
        CAPTURE(from);
        Machine machine{.slow_from = from, .slow_until = from + 2 * round};
        std::vector<Trial> trials = {{.variant = "broadcast"}, {.variant = "vectors"}, {.variant = "direct"}};
        const auto time = [&](Trial& trial) -> Result<void> {
            const double us = machine.run(trial.variant == "vectors" ? 100 : trial.variant == "broadcast" ? 150 : 140);
            trial.us = trial.us > 0 ? std::min(trial.us, us) : us;
            return {};
        };
        for (Trial& trial : trials) REQUIRE(time(trial));
        REQUIRE(tuning::repeat_in_rounds(trials, 3, time));
        CHECK(tuning::best_of(trials) == "vectors");
    }
}

TEST_CASE("of trials the fastest that is right is taken, and none where all are wrong", "[tuning]") {
    std::vector<Trial> trials = {
        {.variant = "a", .us = 3}, {.variant = "b", .us = 1, .fault = "wrong results"}, {.variant = "c", .us = 2}};
    CHECK(tuning::best_of(trials) == "c");
    for (Trial& trial : trials) trial.fault = "wrong results";
    CHECK(tuning::best_of(trials).empty());
}

TEST_CASE("of trials that are as fast the one is taken that errs least", "[tuning]") {
    std::vector<Trial> trials = {{.variant = "floats", .bound = 1e-4, .us = 102},
                                 {.variant = "int8", .bound = 1e-2, .us = 100},
                                 {.variant = "halves", .bound = 1e-3, .us = 101}};
    CHECK(tuning::best_of(trials) == "floats");
    trials[0].us = 104;
    CHECK(tuning::best_of(trials) == "halves");
    trials[2].fault = "wrong results";
    CHECK(tuning::best_of(trials) == "int8");
}

TEST_CASE("a result is right up to its bound and wrong beyond it", "[tuning]") {
    constexpr double kBound = 1e-3, kNan = std::numeric_limits<double>::quiet_NaN();
    const std::vector<double> expected = {3, 4};  // of norm 5
    const auto off_by = [&](double error) { return std::vector<double>{3 + 5 * error, 4}; };
    const auto judged = [&](const std::vector<double>& found) {
        Trial trial;
        tuning::judge(trial, found, expected, kBound);
        return trial;
    };
    for (const double share : {0.0, 0.5, 0.99}) {
        CAPTURE(share);
        const Trial trial = judged(off_by(share * kBound));
        CHECK(trial.fault.empty());
        CHECK(trial.error == Approx(share * kBound).margin(1e-12));
        CHECK(trial.bound == kBound);
    }
    for (const double share : {1.01, 5.0}) {
        CAPTURE(share);
        const Trial trial = judged(off_by(share * kBound));
        CHECK(trial.fault == "wrong results");
        CHECK(trial.error == Approx(share * kBound));
    }
    for (const auto& found :
         {std::vector<double>{kNan, 4}, std::vector<double>{3, std::numeric_limits<double>::infinity()}}) {
        const Trial trial = judged(found);
        CHECK(trial.fault == "wrong results");
        CHECK(trial.error == -1);
    }
    // A single element that is far off does not hide among many that are right.
    std::vector<double> many(100'000, 1), one_off = many;
    one_off[7] += 9 * kBound;
    Trial trial;
    tuning::judge(trial, one_off, many, kBound);
    CHECK(trial.fault == "wrong results");
}

TEST_CASE("of several results the one counts that takes most of its own bound", "[tuning]") {
    const std::vector<double> expected = {3, 4};
    const auto off_by = [&](double error) { return std::vector<double>{3 + 5 * error, 4}; };
    Trial trial;
    tuning::judge(trial, off_by(1e-3), expected, 1e-2);
    tuning::judge(trial, off_by(5e-6), expected, 1e-5);
    tuning::judge(trial, off_by(0), expected, 0);  // integers
    CHECK(trial.fault.empty());
    CHECK(trial.error == Approx(5e-6));
    CHECK(trial.bound == 1e-5);
    tuning::judge(trial, off_by(2e-5), expected, 1e-5);  // far less than what the first may be off by
    CHECK(trial.fault == "wrong results");
    tuning::judge(trial, off_by(0), expected, 1e-5);
    CHECK(trial.fault == "wrong results");
}

}  // namespace vkformer::tests
