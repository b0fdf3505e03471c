// SPDX-License-Identifier: MIT
#include "core/decimal.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

namespace vkformer {
namespace {

/// The number rounded to so many digits.
ShortestDecimal rounded(double magnitude, int digits) {
    char text[48];
    std::snprintf(text, sizeof text, "%.*e", digits - 1, magnitude);
    ShortestDecimal decimal;
    decimal.digits.clear();
    const char* at = text;
    for (; *at != 'e'; ++at)
        if (*at >= '0' && *at <= '9') decimal.digits += *at;  // what stands for the point is the locale's
    decimal.point = std::atoi(at + 1) + 1;
    return decimal;
}

template <class Number>
bool reads_as(const ShortestDecimal& decimal, Number number) {
    const std::string text = decimal.scientific();
    double again = 0;
    std::from_chars(text.data(), text.data() + text.size(), again);
    return static_cast<Number>(again) == number;
}

/// One more in the last place, but of nines.
ShortestDecimal next_above(ShortestDecimal decimal) {
    if (decimal.digits.back() != '9') ++decimal.digits.back();
    return decimal;
}

template <class Number>
ShortestDecimal shortest(Number number) {
    const double magnitude = std::fabs(static_cast<double>(number));
    ShortestDecimal decimal;
    for (int digits = 1; magnitude > 0 && digits <= std::numeric_limits<Number>::max_digits10; ++digits) {
        decimal = rounded(magnitude, digits);
        const auto exact = static_cast<Number>(magnitude);
        if (reads_as(decimal, exact)) break;
        // Above a power of two numbers are twice as far apart as below it: there may be one that is not the nearest.
        const ShortestDecimal above = next_above(decimal);
        if (!reads_as(above, exact)) continue;
        decimal = above;
        break;
    }
    decimal.is_negative = std::signbit(number);
    return decimal;
}

}  // namespace

ShortestDecimal ShortestDecimal::of(double number) { return shortest(number); }
ShortestDecimal ShortestDecimal::of(float number) { return shortest(number); }

std::string ShortestDecimal::plain() const {
    const auto count = static_cast<int>(digits.size());
    std::string text = digits;
    if (point <= 0)
        text = "0." + std::string(static_cast<std::size_t>(-point), '0') + text;
    else if (point < count)
        text.insert(static_cast<std::size_t>(point), ".");
    else
        text.append(static_cast<std::size_t>(point - count), '0');
    return is_negative ? "-" + text : text;
}

std::string ShortestDecimal::scientific() const {
    std::string text = digits;
    if (text.size() > 1) text.insert(1, ".");
    char exponent[16];
    std::snprintf(exponent, sizeof exponent, "e%+03d", point - 1);
    return (is_negative ? "-" : "") + text + exponent;
}

}  // namespace vkformer
