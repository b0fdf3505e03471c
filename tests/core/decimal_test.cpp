// SPDX-License-Identifier: MIT
#include "core/decimal.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <random>

#include "support/catch.h"

namespace vkformer::tests {
namespace {

/// What the standard library makes of a number.
std::string standard(double number, std::chars_format format) {
    char text[400];
    return {text, std::to_chars(text, std::end(text), number, format).ptr};
}

}  // namespace

TEST_CASE("numbers become the fewest digits that are read as the same", "[core]") {
    CHECK(ShortestDecimal::of(0.0).plain() == "0");
    CHECK(ShortestDecimal::of(-0.0).plain() == "-0");
    CHECK(ShortestDecimal::of(0.1f).plain() == "0.1");
    CHECK(ShortestDecimal::of(0.1).scientific() == "1e-01");
    CHECK(ShortestDecimal::of(-1234.5).plain() == "-1234.5");
    CHECK(ShortestDecimal::of(1e23).plain() == "100000000000000000000000");
    CHECK(ShortestDecimal::of(0.00025).plain() == "0.00025");
    CHECK(ShortestDecimal::of(5e-324).scientific() == "5e-324");
    CHECK(ShortestDecimal::of(std::numeric_limits<double>::max()).scientific() == "1.7976931348623157e+308");

    std::mt19937_64 random(1);
    for (int i = 0; i < 2000; ++i) {
        const double number =
            std::ldexp(static_cast<double>(random()) - 9e18, static_cast<int>(random() % 1900) - 1000);
        CAPTURE(number);
        const ShortestDecimal decimal = ShortestDecimal::of(number);
        CHECK(decimal.scientific() == standard(number, std::chars_format::scientific));
        if (std::fabs(number) < 1e15) CHECK(decimal.plain() == standard(number, std::chars_format::fixed));
        const auto single = static_cast<float>(static_cast<double>(random()) * 1e-21);
        char text[64];
        const std::string expected(text,
                                   std::to_chars(text, std::end(text), single, std::chars_format::scientific).ptr);
        CHECK(ShortestDecimal::of(single).scientific() == expected);
    }
    for (int exponent = -1074; exponent < 1024; ++exponent) {
        const double power = std::ldexp(1.0, exponent);
        CHECK(ShortestDecimal::of(power).scientific() == standard(power, std::chars_format::scientific));
    }
}

}  // namespace vkformer::tests
