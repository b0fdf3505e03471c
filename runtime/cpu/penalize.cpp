// SPDX-License-Identifier: MIT
#include <cassert>
#include <limits>

#include "cpu/rows.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {
namespace {

// y = x + bias; of a token in the prompt or generated, y / repetition where y > 0, else y · repetition (Keskar et al. 2019, section
// 4.1, as Hugging Face has it); of one generated n ≥ 1 times, y − presence − frequency · n; −∞ for one whose bit of `allowed` is 0.
// One row; counts, bias and allowed may be empty.
template <std::floating_point T>
void penalize(std::span<const T> x, std::span<const std::int32_t> counts, std::span<const T> bias,
              std::span<const std::int32_t> allowed, const graph::Penalize& op, std::span<T> y) {
    assert(y.size() == x.size());
    const auto repetition = static_cast<T>(op.repetition);
    for (std::size_t i = 0; i < x.size(); ++i) {
        y[i] = x[i] + (bias.empty() ? T{0} : bias[i]);
        if (counts.empty() || counts[i] == 0) continue;
        y[i] = y[i] > 0 ? y[i] / repetition : y[i] * repetition;
        const std::int32_t generated = counts[i] & (graph::kInPrompt - 1);
        if (generated > 0)
            y[i] -= static_cast<T>(op.presence) + static_cast<T>(op.frequency) * static_cast<T>(generated);
    }
    for (std::size_t i = 0; i < x.size() && !allowed.empty(); ++i)
        if ((static_cast<std::uint32_t>(allowed[i / 32]) >> (i % 32) & 1) == 0)
            y[i] = -std::numeric_limits<T>::infinity();
}

template <std::floating_point T>
std::span<const T> bias_of(const graph::Penalize& op, const Operands<T>& operands, std::size_t row) {
    const auto bias = operands.floats(op.bias);
    const std::size_t vocab = operands.floats(op.x, row).size();
    return bias.size() <= vocab ? bias : bias.subspan(row * vocab, vocab);
}

template <std::floating_point T>
graph::Penalize of_row(graph::Penalize op, const Operands<T>& operands, std::size_t row) {
    if (!op.settings) return op;
    const auto settings = operands.floats(op.settings, row);
    op.repetition = static_cast<float>(settings[graph::kRowRepetition]);
    op.presence = static_cast<float>(settings[graph::kRowPresence]);
    op.frequency = static_cast<float>(settings[graph::kRowFrequency]);
    return op;
}

}  // namespace

template <std::floating_point T>
void execute(const graph::Penalize& op, const Operands<T>& operands) {
    for_rows(operands.rows(op.x), operands.width(op.x), [&](std::size_t row) {
        penalize<T>(operands.floats(op.x, row), operands.ints(op.counts, row), bias_of(op, operands, row),
                    operands.ints(op.allowed, row), of_row(op, operands, row), operands.floats(op.y, row));
    });
}
template void execute(const graph::Penalize&, const Operands<float>&);
template void execute(const graph::Penalize&, const Operands<double>&);

// four steps, one a quotient of 2.5 units
ErrorRule error_rule(const graph::Penalize&, const graph::Graph&) { return {8}; }

}  // namespace vkformer::cpu
