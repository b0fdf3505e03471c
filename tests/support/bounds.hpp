// SPDX-License-Identifier: MIT
/// How far a result may be from other people's: the measure, and the bounds of whole examples. The bounds of single ops are
/// argued beside their arithmetic (cpu/OP.cpp), since the library needs them as well.
#pragma once

#include <cassert>
#include <cmath>
#include <limits>
#include <span>

namespace vkformer::tests {

/// ‖found − expected‖ / ‖expected‖; NaN if any element is NaN, which passes no comparison.
template <class Found, class Expected>
double relative_error(std::span<const Found> found, std::span<const Expected> expected) {
    assert(found.size() == expected.size());
    double difference_squares = 0, expected_squares = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const double difference = static_cast<double>(found[i]) - static_cast<double>(expected[i]);
        difference_squares += difference * difference;
        expected_squares += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
    }
    if (expected_squares == 0) return difference_squares == 0 ? 0 : std::numeric_limits<double>::infinity();
    return std::sqrt(difference_squares / expected_squares);
}

/// |found − expected| / max |expected|, the largest of all elements: no single wrong element hides in the norm of the others.
template <class Found, class Expected>
double worst_element_error(std::span<const Found> found, std::span<const Expected> expected) {
    assert(found.size() == expected.size());
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const double difference = std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
        if (!(difference <= worst)) worst = difference;  // a NaN stays
        largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    }
    return largest == 0 ? worst : worst / largest;
}

/// One layer in float32: sums of n ≤ 300 products err by about √n · 2^-24 ≈ 1e-6 of their terms, and exp() turns an absolute
/// error of a score (here up to 20 units of 2^-24) into a relative one of a weight.
inline constexpr double kLayerBound = 3e-6;
/// A stack of a few layers: the errors of some 30 layers' worth of sums add up; what the README promises is 1e-5.
inline constexpr double kModelBound = 1e-5;
/// Double precision against double precision: the same sums in another order, n ≤ 300, and 2^-53 = 1.1e-16.
inline constexpr double kDoubleBound = 1e-12;
/// Double precision where an attribute of the node (a scale, an eps) is a float, rounded by up to 2^-25 = 3e-8: that error
/// times the size of the scores, up to 10.
inline constexpr double kRoundedAttributeBound = 3e-7;
/// The worked examples: a few terms per sum, but inputs of three decimals that had to be rounded to float.
inline constexpr double kSeedBound = 1e-6;

}  // namespace vkformer::tests
