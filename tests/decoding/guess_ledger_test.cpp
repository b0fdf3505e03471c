// SPDX-License-Identifier: MIT
#include "decoding/guess_ledger.hpp"

#include <algorithm>

#include "support/catch.h"

namespace vkformer::tests {

using decoding::GuessLedger;

TEST_CASE("wrong guesses take a hundredth of the time at most", "[decoding][lookup]") {
    const double check = GENERATE(1.0, 1.3, 4.0, 30.0);  // in steps
    CAPTURE(check);
    GuessLedger ledger;
    CHECK_FALSE(ledger.allows(8));  // nothing is known yet
    ledger.took_steps(1, 20.0);
    CHECK_FALSE(ledger.allows(8));  // a program's first run says nothing
    ledger.begin();
    double time = 0;
    std::size_t checks = 0, tokens = 0;
    for (; tokens < 5000; ++tokens) {
        const bool checks_now = ledger.allows(8);
        const double seconds = checks_now ? check : 1.0;
        time += seconds;
        checks += checks_now;
        checks_now ? ledger.took_check(8, 1, 0, seconds) : ledger.took_steps(1, seconds);
    }
    // The first check is not counted, and the last may be lost.
    CHECK(0.99 * time <= static_cast<double>(tokens) + 2 * (check - 1) + 1e-6);
    CHECK(checks >= 2);
}

TEST_CASE("right guesses pay for wrong ones, for one check", "[decoding][lookup]") {
    GuessLedger ledger;
    for (int i = 0; i < 2; ++i) ledger.took_steps(1, 1.0);
    ledger.took_check(8, 1, 0, 2.0);  // the first
    for (int i = 0; i < 10; ++i) ledger.took_check(8, 8, 0, 2.0);
    CHECK(ledger.allows(8));
    ledger.took_check(8, 1, 0, 2.0);
    CHECK(ledger.allows(8));
    ledger.took_check(8, 1, 0, 2.0);
    CHECK(ledger.allows(8));
    ledger.took_check(8, 1, 0, 2.0);
    CHECK_FALSE(ledger.allows(8));
    ledger.begin();
    CHECK(ledger.allows(8));
}

TEST_CASE("steps between two looks take a hundredth of a second", "[decoding][lookup]") {
    GuessLedger ledger;
    CHECK(ledger.steps_between() == 1);
    for (int i = 0; i < 2; ++i) ledger.took_steps(1, 0.1);
    CHECK(ledger.steps_between() == 1);
    GuessLedger quick;
    for (int i = 0; i < 2; ++i) quick.took_steps(4, 0.004);
    CHECK(quick.steps_between() == 10);
}

TEST_CASE("guesses that never pay are tried no longer than patience lasts", "[decoding][lookup][draft]") {
    // A draft model that takes as long as the model, all of whose guesses are wrong; or one that costs nothing, a third of which are right.
    const bool is_wrong = GENERATE(true, false);
    CAPTURE(is_wrong);
    GuessLedger ledger(true);
    for (int i = 0; i < 2; ++i) ledger.took_steps(1, 1.0);
    double time = 2, tokens = 2;
    while (tokens < 5000) {
        const std::size_t count = ledger.best_count(7);
        REQUIRE(count >= 1);
        REQUIRE(count <= 7);
        if (!ledger.allows(7)) {
            ledger.took_steps(1, 1.0);
            time += 1, tokens += 1;
            continue;
        }
        const double guess_seconds = is_wrong ? static_cast<double>(count) : 0.001,
                     check_seconds = is_wrong ? 2.0 : 4.0;
        const std::size_t right = is_wrong ? 0 : static_cast<std::size_t>(tokens) % 3 == 0;
        ledger.took_check(count, 1 + right, guess_seconds, check_seconds);
        time += guess_seconds + check_seconds, tokens += 1 + static_cast<double>(right);
    }
    // The first check, four of patience and one that may be lost.
    CHECK(0.99 * time <= tokens + 6 * 9);
}

TEST_CASE("a wrong guess now and then ends no series of right ones", "[decoding][lookup][draft]") {
    GuessLedger ledger(true);
    for (int i = 0; i < 2; ++i) ledger.took_steps(1, 1.0);
    int refused = 0;
    for (int i = 0; i < 300; ++i) {
        if (!ledger.allows(7)) {
            CHECK(ledger.is_step_due());
            ledger.took_steps(1, 1.0);
            ++refused;
        }
        const std::size_t count = ledger.best_count(7);
        ledger.took_check(count, i % 4 == 0 ? 1 : count + 1, 0.1 * static_cast<double>(count), 1.2);
    }
    CHECK(refused == 300 / static_cast<int>(GuessLedger::kMostChecks));
}

// What a step takes was measured in a busy moment: wrong guesses would look like gains for ever.
TEST_CASE("a step is measured again now and then", "[decoding][lookup][draft]") {
    const bool guesses_cost = GENERATE(false, true);
    GuessLedger ledger(guesses_cost);
    ledger.took_steps(1, 1.0);
    ledger.took_steps(1, 20.0);
    int checks = 0, steps = 0;
    for (int i = 0; i < 1000; ++i)
        if (ledger.allows(7)) {
            ledger.took_check(ledger.best_count(7), 1, 1.0, 2.0);
            ++checks;
        } else {
            ledger.took_steps(1, 1.0);
            ++steps;
        }
    CHECK(checks < 10 * static_cast<int>(GuessLedger::kMostChecks));
    CHECK(steps > 300);
}

TEST_CASE("a draft model that was seen not to pay is asked again when the time allows it",
          "[decoding][lookup][draft]") {
    GuessLedger ledger(true);
    for (int i = 0; i < 2; ++i) ledger.took_steps(1, 1.0);
    for (int i = 0; i < 20 && ledger.allows(7); ++i)
        ledger.took_check(ledger.best_count(7), 1, static_cast<double>(ledger.best_count(7)), 2.0);
    REQUIRE_FALSE(ledger.allows(7));
    ledger.begin();  // another call
    CHECK_FALSE(ledger.allows(7));
    int steps = 0;
    for (; steps < 10000 && !ledger.allows(7); ++steps) ledger.took_steps(1, 1.0);
    CHECK(steps >= 250);  // a check with one guess takes three steps
    CHECK(steps <= 1200);
}

TEST_CASE("guesses that come to nothing are lost time", "[decoding][lookup][draft]") {
    GuessLedger ledger(true);
    for (int i = 0; i < 2; ++i) ledger.took_steps(1, 1.0);
    CHECK(ledger.allows(7));
    ledger.took_nothing(2.0);
    CHECK_FALSE(ledger.allows(7));
}

TEST_CASE("as many tokens are guessed as give the most in a second", "[decoding][lookup][draft]") {
    const auto best = [](double guess_seconds, double check_seconds, std::size_t right) {
        GuessLedger ledger(true);
        CHECK(ledger.best_count(7) == 7);  // nothing is known yet
        for (int i = 0; i < 2; ++i) ledger.took_steps(1, 1.0);
        for (int i = 0; i < 40; ++i) {
            const std::size_t count = ledger.best_count(7);
            ledger.took_check(count, 1 + std::min(right, count), guess_seconds * static_cast<double>(count),
                              check_seconds);
        }
        return ledger.best_count(7);
    };
    CHECK(best(0.05, 1.1, 7) == 7);  // all right
    CHECK(best(0.05, 1.1, 0) == 1);  // none
    CHECK(best(0.9, 1.1, 2) < best(0.05, 1.1, 2));
    CHECK(best(0.2, 1.1, 1) <= best(0.2, 1.1, 3));
}

}  // namespace vkformer::tests
