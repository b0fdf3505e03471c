// SPDX-License-Identifier: MIT
#include "bench/check.hpp"

#include <limits>
#include <vector>

#include "support/catch.h"
#include "support/special_floats.hpp"

namespace vkformer::tests {
namespace {

using bench::compare_floats;

TEST_CASE("the gate lets rounding pass and nothing else", "[bench][check]") {
    const std::vector<double> expected(1000, 1.0);
    std::vector<double> found = expected;
    CHECK(compare_floats(found, expected, 1e-6).right());
    for (double& value : found) value += 5e-7;
    const auto close = compare_floats(found, expected, 1e-6);
    CHECK(close.right());
    CHECK(close.error == Approx(5e-7));

    found = expected;
    for (double& value : found) value += 2e-6;
    CHECK_FALSE(compare_floats(found, expected, 1e-6).right());

    found = expected;
    found[17] += 1e-5;  // 3e-7 of the norm, but ten times the bound by itself
    const auto single = compare_floats(found, expected, 1e-6);
    CHECK_FALSE(single.right());
    CHECK(single.failure.starts_with("element 17 is "));
}

TEST_CASE("the gate: NaN and infinity are right only where they are expected", "[bench][check]") {
    using Values = std::vector<double>;
    CHECK_FALSE(compare_floats(Values{1.0, kNaN}, Values{1.0, 1.0}, 1).right());
    CHECK_FALSE(compare_floats(Values{1.0, 1.0}, Values{1.0, kNaN}, 1).right());
    CHECK_FALSE(compare_floats(Values{1.0, kInfinity}, Values{1.0, -kInfinity}, 1).right());
    CHECK(compare_floats(Values{1.0, kNaN, -kInfinity}, Values{1.0, kNaN, -kInfinity}, 0).right());
    CHECK_FALSE(compare_floats(Values{1e-9}, Values{0.0}, 1).right());  // nothing is relative to zero
}

}  // namespace
}  // namespace vkformer::tests
