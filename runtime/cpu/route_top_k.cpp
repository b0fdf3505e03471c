// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <vector>

#include "cpu/rows.hpp"
#include "cpu/top_k.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {
namespace {

// The experts of the groups that come first by the sum of their best experts' places, rising. DeepSeek-AI 2024 (arXiv 2405.04434),
// section 2.2.2.
std::vector<std::size_t> experts_of_groups(std::span<const double> places, const graph::RouteGroups& groups) {
    const std::size_t size = places.size() / groups.count;
    std::vector<double> best(groups.best), sums(groups.count), kept_sums(groups.kept);
    std::vector<std::int32_t> indices(groups.best), kept(groups.kept);
    std::vector<std::size_t> experts;
    for (std::size_t g = 0; g < sums.size(); ++g) {
        top_k<double>(row_of(places, g, size), best, indices);
        sums[g] = std::accumulate(best.begin(), best.end(), 0.0);
    }
    top_k<double>(sums, kept_sums, kept);
    std::ranges::sort(kept);
    for (const std::int32_t g : kept)
        for (std::size_t i = 0; i < size; ++i) experts.push_back(static_cast<std::size_t>(g) * size + i);
    return experts;
}

// indices: the first by their places of the experts that groups leave, as of top_k.
void choose(std::span<const double> places, const graph::RouteGroups& groups, std::span<std::int32_t> indices) {
    const std::vector<std::size_t> experts = experts_of_groups(places, groups);
    std::vector<double> of_experts(experts.size()), chosen(indices.size());
    std::ranges::transform(experts, of_experts.begin(), [&](std::size_t e) { return places[e]; });
    top_k<double>(of_experts, chosen, indices);
    for (std::int32_t& index : indices) index = static_cast<std::int32_t>(experts[static_cast<std::size_t>(index)]);
}

// Of the experts `indices` alone, in this order.
template <std::floating_point T>
void score_by_neighbours(std::span<const T> x, float jitter, std::span<const std::int32_t> indices,
                         std::span<T> scores) {
    std::vector<bool> is_taken(x.size());
    for (const std::int32_t index : indices) {
        const auto chosen = static_cast<std::size_t>(index);
        const T own = x[chosen];
        T sum = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            const bool is_far =
                own - x[i] > 2 * static_cast<T>(jitter) * std::max(std::abs(x[i]), own);  // a NaN is near
            if (!is_taken[i] && !is_far) sum += std::exp(x[i] - own);
        }
        scores[chosen] = 1 / sum;
        is_taken[chosen] = true;
    }
}

// score[i] = exp(x[i] − m) / Σ_j exp(x[j] − m), m = max x, or 1 / (1 + exp(−x[i])), one row. indices: the k = weights.size() first by x, or by
// score + bias, as of top_k, of all experts or of those of some groups; weights: their scores, divided by their sum (and least_sum) where
// asked for, times scale.
// Shazeer et al. 2017, eq. 3 to 5; Jiang et al. 2024, section 2.1; DeepSeek-AI 2024 (arXiv 2412.19437), eq. 12 to 16.
// sparse_mixer: the j-th score is 1 / Σ_i exp(x[i] − m), m = x[indices[j]], over the i that no earlier choice took with m − x[i] ≤
// 2 · jitter · max(|x[i]|, m). Liu et al. 2024 (arXiv 2409.12136).
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
    } else if (op.scores == graph::RouteScores::sigmoid) {
        for (std::size_t i = 0; i < x.size(); ++i) scores[i] = 1 / (1 + std::exp(-x[i]));
    }
    std::vector<double> places(x.begin(), x.end());                       // both scores rise with x
    if (op.groups.best > 1) places.assign(scores.begin(), scores.end());  // which are added up
    for (std::size_t i = 0; i < bias.size(); ++i) places[i] = double{scores[i] + bias[i]};
    choose(places, op.groups, indices);
    if (op.scores == graph::RouteScores::sparse_mixer) score_by_neighbours<T>(x, op.jitter, indices, scores);
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
