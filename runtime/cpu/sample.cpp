// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "cpu/arg_max.hpp"
#include "cpu/philox.hpp"
#include "cpu/rows.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {
namespace {

constexpr std::size_t kRandomWords = 3;  // per row: seed (low, high), draws so far

// log(w) of a logit, w its probability in units of that of the best one. Equal ones, infinite ones too, have 0.
template <std::floating_point T>
T log_weight(T logit, T best, float temperature) {
    return logit == best ? T{0} : (logit - best) / static_cast<T>(temperature);
}

// The least logit that top_k and top_p keep: the top_k-th largest; of what that keeps, the first logit, from the largest on, up to
// which they have top_p of the probability. x has no NaN. Holtzman et al. 2020, eq. 2.
template <std::floating_point T>
T least_kept(std::span<const T> x, const graph::Sample& op) {
    if (op.top_k == 0 && op.top_p >= 1) return -std::numeric_limits<T>::infinity();
    std::vector<T> logits(x.begin(), x.end());
    std::ranges::sort(logits, std::greater<>{});
    const std::size_t kept = op.top_k == 0 ? logits.size() : std::min<std::size_t>(op.top_k, logits.size());
    const T kth = logits[kept - 1];
    if (op.top_p >= 1) return kth;

    const auto weight = [&](T logit) {
        return std::exp(static_cast<double>(log_weight(logit, logits[0], op.temperature)));
    };
    double total = 0;
    for (const T logit : logits)
        if (logit >= kth) total += weight(logit);
    double sum = 0;
    for (const T logit : logits) {
        sum += weight(logit);
        if (sum >= op.top_p * total) return std::max(logit, kth);
    }
    return kth;
}

// i with probability softmax(x / temperature)[i] over the tokens that top_k, top_p and min_p keep, one row. The draw is a race: the
// token with the least E_i / w_i wins, E_i exponentially distributed (Efraimidis and Spirakis 2006), from Philox with the counter
// (i / 4, draws). random: seed (low, high), draws so far, which are one more afterwards.
template <std::floating_point T>
std::int32_t sample(std::span<const T> x, const graph::Sample& op, std::span<std::int32_t> random) {
    assert(random.size() == kRandomWords);
    const std::array seed{static_cast<std::uint32_t>(random[0]), static_cast<std::uint32_t>(random[1])};
    const auto draws = static_cast<std::uint32_t>(random[2]);
    random[2] = static_cast<std::int32_t>(draws + 1);
    const std::int32_t first = arg_max<T>(x);
    if (first < 0) return first;
    const T best = x[static_cast<std::size_t>(first)];
    if (op.temperature == 0 || best == -std::numeric_limits<T>::infinity()) return first;

    const T least = least_kept<T>(x, op);
    const T lowest = std::log(static_cast<T>(op.min_p));
    std::vector<T> scores(x.size(), -std::numeric_limits<T>::infinity());
    for (std::size_t i = 0; i < x.size(); ++i) {
        const T weight = log_weight(x[i], best, op.temperature);
        if (x[i] < least || weight < lowest) continue;
        const auto words = philox({static_cast<std::uint32_t>(i / 4), draws, 0, 0}, seed);
        scores[i] = weight - std::log(exponential_number<T>(words[i % 4]));
    }
    return static_cast<std::int32_t>(index_of_first<T>(scores));
}

template <std::floating_point T>
graph::Sample of_row(graph::Sample op, const Operands<T>& operands, std::size_t row) {
    if (!op.settings) return op;
    const auto settings = operands.floats(op.settings, row);
    op.temperature = static_cast<float>(settings[graph::kRowTemperature]);
    const double top_k = static_cast<double>(settings[graph::kRowTopK]);  // of what a graph was given: any number
    op.top_k = top_k > 0 ? static_cast<std::uint32_t>(std::min(top_k, 0x1p24)) : 0;
    op.top_p = static_cast<float>(settings[graph::kRowTopP]);
    op.min_p = std::min(static_cast<float>(settings[graph::kRowMinP]), 1.0f);  // the likeliest is always kept
    return op;
}

}  // namespace

template <std::floating_point T>
void execute(const graph::Sample& op, const Operands<T>& operands) {
    for_rows(operands.rows(op.x), operands.width(op.x), [&](std::size_t row) {
        operands.ints(op.y)[row] =
            sample<T>(operands.floats(op.x, row), of_row(op, operands, row), operands.ints(op.random, row));
    });
}
template void execute(const graph::Sample&, const Operands<float>&);
template void execute(const graph::Sample&, const Operands<double>&);

ErrorRule error_rule(const graph::Sample&, const graph::Graph&) { return kExact; }

}  // namespace vkformer::cpu
