// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "cpu/rows.hpp"
#include "cpu/top_k.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {
namespace {

// score[i] = exp(x[i] − m) / Σ_j exp(x[j] − m), m = max x, or 1 / (1 + exp(−x[i])), one row. indices: the k = weights.size() first by x, or by
// score + bias, as of top_k; weights: their scores, divided by their sum (and least_sum) where asked for, times scale.
// Shazeer et al. 2017, eq. 3 to 5; Jiang et al. 2024, section 2.1; DeepSeek-AI 2024 (arXiv 2412.19437), eq. 12 to 16.
template <std::floating_point T>
void route_top_k(std::span<const T> x, const graph::RouteTopK& op, std::span<const T> bias, std::span<T> weights,
                 std::span<std::int32_t> indices) {
    assert(weights.size() <= x.size() && indices.size() == weights.size());
    std::vector<T> scores(x.size());
    if (op.scores == graph::RouteScores::softmax) {
        const T max = *std::ranges::max_element(x);
        T sum = 0;
        for (const T value : x) sum += std::exp(value - max);
        for (std::size_t i = 0; i < x.size(); ++i) scores[i] = std::exp(x[i] - max) / sum;
    } else {
        for (std::size_t i = 0; i < x.size(); ++i) scores[i] = 1 / (1 + std::exp(-x[i]));
    }
    std::vector<T> places(x.begin(), x.end());  // both scores rise with x
    for (std::size_t i = 0; i < bias.size(); ++i) places[i] = scores[i] + bias[i];
    top_k<T>(places, weights, indices);
    T sum = static_cast<T>(op.least_sum);
    for (std::size_t j = 0; j < weights.size(); ++j) {
        weights[j] = scores[static_cast<std::size_t>(indices[j])];
        sum += weights[j];
    }
    for (T& weight : weights) weight = (op.normalises ? weight / sum : weight) * static_cast<T>(op.scale);
}

}  // namespace

template <std::floating_point T>
void execute(const graph::RouteTopK& op, const Operands<T>& operands) {
    for_rows(operands.rows(op.x), operands.width(op.x), [&](std::size_t row) {
        route_top_k<T>(operands.floats(op.x, row), op, operands.floats(op.bias), operands.floats(op.weights, row),
                       operands.ints(op.indices, row));
    });
}
template void execute(const graph::RouteTopK&, const Operands<float>&);
template void execute(const graph::RouteTopK&, const Operands<double>&);

// a softmax as LogSoftmax has it, and a sum of its largest
ErrorRule error_rule(const graph::RouteTopK& op, const graph::Graph& graph) {
    return {2 * kExpUnits, 4, graph.shape(op.x).back()};
}

}  // namespace vkformer::cpu
