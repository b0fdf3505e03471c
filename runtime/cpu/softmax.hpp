// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <span>

#include "cpu/float_kernels.hpp"

namespace vkformer::cpu {

template <std::floating_point T>
struct SoftmaxTerms {
    T max;  ///< m, the largest score
    T sum;  ///< Σ exp(score − m)
};

/// Replaces the scores by exp(score − m), where m is not below `least`. Keys with a score of −∞ count as unseen: a row of nothing else
/// becomes zeros, with m = least and sum 0. A NaN among the scores gives a NaN sum.
template <std::floating_point T>
SoftmaxTerms<T> exponentiate(std::span<T> scores, T least = -std::numeric_limits<T>::infinity()) {
    constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();
    if constexpr (std::same_as<T, float>) {
        const float max = std::max(least, float_kernels().max_of(scores.data(), scores.size()));
        if (max != kMinusInfinity) return {max, float_kernels().exponentiate(scores.data(), scores.size(), max)};
    }
    T max = least;
    bool any_seen = false;
    for (const T score : scores) {
        any_seen = any_seen || score != kMinusInfinity;
        if (score > max) max = score;
    }
    T sum = 0;
    for (T& score : scores) {
        score = any_seen ? std::exp(score - max) : T{0};
        sum += score;
    }
    return {max, sum};
}

}  // namespace vkformer::cpu
