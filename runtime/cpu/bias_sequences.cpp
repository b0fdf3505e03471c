// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cassert>

#include "cpu/rows.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {
namespace {

template <std::floating_point T>
struct BiasedPhrases {
    std::span<const std::int32_t> phrases;  ///< graph::kPhraseWords elements each
    std::span<const std::int32_t> tokens;
    std::span<const T> biases;
};

// y = x + Σ bias over the phrases that a token would complete: behind their other tokens, and at least one more, as Hugging Face's
// SequenceBiasLogitsProcessor has it (a phrase as long as the text with the token is passed over). One row.
template <std::floating_point T>
void bias_sequences(std::span<const T> x, std::span<const std::int32_t> sequence, std::int32_t start,
                    const BiasedPhrases<T>& biased, std::span<T> y) {
    using graph::kPhraseBegin, graph::kPhraseLast, graph::kPhraseLen, graph::kPhraseWords;
    assert(y.size() == x.size() && biased.phrases.size() == kPhraseWords * biased.biases.size());
    const auto length = static_cast<std::size_t>(std::max(std::int64_t{start} + 1, std::int64_t{0}));
    const auto text = sequence.first(std::min(sequence.size(), length));
    const auto is_next = [&](std::span<const std::int32_t> before) {
        if (before.empty()) return true;
        return text.size() > before.size() && std::ranges::equal(text.last(before.size()), before);
    };
    std::ranges::copy(x, y.begin());
    for (std::size_t k = 0; k < biased.biases.size();) {
        const auto token = static_cast<std::size_t>(biased.phrases[k * kPhraseWords + kPhraseLast]);
        T sum = 0;
        for (; k < biased.biases.size(); ++k) {
            const auto phrase = biased.phrases.subspan(k * kPhraseWords, kPhraseWords);
            if (static_cast<std::size_t>(phrase[kPhraseLast]) != token) break;
            const auto begin = static_cast<std::size_t>(phrase[kPhraseBegin]);
            if (is_next(biased.tokens.subspan(begin, static_cast<std::size_t>(phrase[kPhraseLen]))))
                sum += biased.biases[k];
        }
        y[token] = x[token] + sum;
    }
}

}  // namespace

template <std::floating_point T>
void execute(const graph::BiasSequences& op, const Operands<T>& operands) {
    const BiasedPhrases<T> biased{
        .phrases = operands.ints(op.phrases), .tokens = operands.ints(op.tokens), .biases = operands.floats(op.biases)};
    for_rows(operands.rows(op.x), operands.width(op.x), [&](std::size_t row) {
        bias_sequences<T>(operands.floats(op.x, row), operands.ints(op.sequences, row), operands.ints(op.starts)[row],
                          biased, operands.floats(op.y, row));
    });
}
template void execute(const graph::BiasSequences&, const Operands<float>&);
template void execute(const graph::BiasSequences&, const Operands<double>&);

ErrorRule error_rule(const graph::BiasSequences& op, const graph::Graph& graph) {
    return {8, 4, graph.shape(op.phrases)[0]};  // all phrases may end alike
}

}  // namespace vkformer::cpu
