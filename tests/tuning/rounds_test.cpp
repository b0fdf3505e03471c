// SPDX-License-Identifier: MIT
/// Trials in rounds, with times that are made up.
#include "tuning/ladder.hpp"

#include <algorithm>

#include "support/catch.h"

using namespace vkformer;
using tuning::Trial;

namespace {

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
        CHECK(tuning::fastest_of(trials) == "vectors");
    }
}

TEST_CASE("of trials the fastest that is right is taken, and none where all are wrong", "[tuning]") {
    std::vector<Trial> trials = {
        {.variant = "a", .us = 3}, {.variant = "b", .us = 1, .fault = "wrong results"}, {.variant = "c", .us = 2}};
    CHECK(tuning::fastest_of(trials) == "c");
    for (Trial& trial : trials) trial.fault = "wrong results";
    CHECK(tuning::fastest_of(trials).empty());
}
