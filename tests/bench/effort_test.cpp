// SPDX-License-Identifier: MIT
#include "bench/effort.hpp"

#include <vector>

#include "support/catch.h"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

using namespace bench;

/// A device whose launches cost `launch` seconds, and which does `rate` work a second; it remembers what it was asked for.
struct FakeDevice {
    double rate, launch = 0;
    std::vector<std::uint64_t> asked{};
    double spent = 0;

    Result<double> run(std::uint64_t work) {
        asked.push_back(work);
        const double seconds = launch + static_cast<double>(work) / rate;
        spent += seconds;
        return seconds;
    }
};

std::uint64_t grown(FakeDevice& device, const Growth& growth) {
    return must(grow(growth, [&](std::uint64_t work) { return device.run(work); }));
}

TEST_CASE("work grows until a run takes long enough", "[bench][effort]") {
    const double rate = GENERATE(1e3, 3e4, 1e6, 7e7);
    const double launch = GENERATE(0.0, 1e-5, 1e-3);
    CAPTURE(rate, launch);
    FakeDevice device{.rate = rate, .launch = launch};
    const std::uint64_t work = grown(device, {.first = 4, .most = 1u << 30, .seconds = 0.1});
    const double seconds = launch + static_cast<double>(work) / rate;
    CHECK(seconds > 0.05);
    CHECK(seconds < 0.1001);
    CHECK(device.asked.front() == 4);
    CHECK(device.asked.back() == work);
    CHECK(device.spent < 0.2);
}

TEST_CASE("a slow device does the first work once, and no more", "[bench][effort]") {
    FakeDevice device{.rate = 1};
    CHECK(grown(device, {.first = 64, .most = 1u << 20, .seconds = 0.1}) == 64);
    CHECK(device.asked == std::vector<std::uint64_t>{64});
}

TEST_CASE("a fast device does the most", "[bench][effort]") {
    FakeDevice fast{.rate = 1e12};
    CHECK(grown(fast, {.first = 1, .most = 1000, .seconds = 0.1}) == 1000);
    CHECK(fast.asked == std::vector<std::uint64_t>{1, 16, 256, 1000});
    FakeDevice only{.rate = 1e12};
    CHECK(grown(only, {.first = 64, .most = 3, .seconds = 0.1}) == 3);
    // A clock whose ticks are too coarse for small runs says 0, and what is behind 2^53 is reached as well.
    std::vector<std::uint64_t> asked;
    const std::uint64_t most = (std::uint64_t{1} << 60) + 1;
    CHECK(must(grow({.first = 1, .most = most, .seconds = 0.1}, [&](std::uint64_t work) -> Result<double> {
              asked.push_back(work);
              return 0.0;
          })) == most);
    CHECK(asked.size() == 16);
}

TEST_CASE("a run that fails ends the growth", "[bench][effort]") {
    int runs = 0;
    const auto result = grow({.first = 1, .most = 100, .seconds = 1}, [&](std::uint64_t) -> Result<double> {
        if (++runs == 2) return Error{ErrorCode::DeviceLost, "lost"};
        return 1e-6;
    });
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::DeviceLost);
    CHECK(runs == 2);
}

TEST_CASE("parts of a budget share what is left", "[bench][effort]") {
    double now = 100;
    Budget budget(3, 4, [&] { return now; });
    const Part first = budget.next();
    CHECK(first.left() == Approx(0.75));
    now += 0.15;
    CHECK(first.left() == Approx(0.6));
    const Part second = budget.next();  // what the first left is for the three others
    CHECK(second.left() == Approx(0.95));
    now += 2.05;
    CHECK(second.left() == 0);
    const Part third = budget.next();  // what the second took too much is theirs
    CHECK(third.left() == Approx(0.4));
    now += 10;
    CHECK(budget.next().left() == 0);
    CHECK(budget.next().left() == 0);  // one more than was said
    CHECK(Budget(1, 0, [&] { return now; }).next().left() == Approx(1));
}

}  // namespace
}  // namespace vkformer::tests
