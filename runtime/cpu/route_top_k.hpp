// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu/top_k.hpp"

namespace vkformer::cpu {

template <std::floating_point T>
struct RouteRules {
    bool is_softmax;  ///< else each expert has a sigmoid of its own
    bool normalises;
    T scale;
    std::span<const T> bias;  ///< empty: none
};

// score[i] = exp(x[i] − m) / Σ_j exp(x[j] − m), m = max x, or 1 / (1 + exp(−x[i])), one row. indices: the k = weights.size() first by x, or by
// score + bias, as of top_k; weights: their scores, divided by their sum (and 1e-20, against a sum of 0) where asked for, times scale.
// Shazeer et al. 2017, eq. 3 to 5; Jiang et al. 2024, section 2.1; DeepSeek-AI 2024 (arXiv 2412.19437), eq. 12 to 16.
template <std::floating_point T>
void route_top_k(std::span<const T> x, const RouteRules<T>& rules, std::span<T> weights,
                 std::span<std::int32_t> indices) {
    assert(weights.size() <= x.size() && indices.size() == weights.size());
    std::vector<T> scores(x.size());
    if (rules.is_softmax) {
        const T max = *std::ranges::max_element(x);
        T sum = 0;
        for (const T value : x) sum += std::exp(value - max);
        for (std::size_t i = 0; i < x.size(); ++i) scores[i] = std::exp(x[i] - max) / sum;
    } else {
        for (std::size_t i = 0; i < x.size(); ++i) scores[i] = 1 / (1 + std::exp(-x[i]));
    }
    std::vector<T> places(x.begin(), x.end());  // both scores rise with x
    for (std::size_t i = 0; i < rules.bias.size(); ++i) places[i] = scores[i] + rules.bias[i];
    top_k<T>(places, weights, indices);
    T sum = static_cast<T>(1e-20);
    for (std::size_t j = 0; j < weights.size(); ++j) {
        weights[j] = scores[static_cast<std::size_t>(indices[j])];
        sum += weights[j];
    }
    for (T& weight : weights) weight = (rules.normalises ? weight / sum : weight) * rules.scale;
}

}  // namespace vkformer::cpu
