// SPDX-License-Identifier: MIT
#include "cpu/mask_logits.hpp"

#include <vector>

#include "cpu/rows.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {
namespace {

// Adds to `banned` what would complete a run of `ngram` tokens that sequence[0 … start] has already: every token that follows a
// place where its last ngram − 1 tokens stand. Hugging Face's NoRepeatNGramLogitsProcessor; fairseq had it first.
void ban_repeats(std::span<const std::int32_t> sequence, std::int32_t start, std::uint32_t ngram,
                 std::vector<std::int32_t>& banned) {
    assert(ngram > 0);
    const std::size_t len =
        std::min(sequence.size(), static_cast<std::size_t>(std::max(std::int64_t{start} + 1, std::int64_t{0})));
    if (len < ngram) return;
    const auto last = sequence.subspan(len - (ngram - 1), ngram - 1);
    for (std::size_t i = 0; i + ngram <= len; ++i)
        if (std::ranges::equal(sequence.subspan(i, ngram - 1), last)) banned.push_back(sequence[i + ngram - 1]);
}

// Adds to `banned` what would complete a run of `ngram` tokens that the source has: every token of it that follows a place where
// the sequence's last ngram − 1 tokens stand. Hugging Face's EncoderNoRepeatNGramLogitsProcessor.
void ban_source(std::span<const std::int32_t> source, std::span<const std::int32_t> sequence, std::int32_t start,
                std::uint32_t ngram, std::vector<std::int32_t>& banned) {
    assert(ngram > 0);
    const std::size_t len =
        std::min(sequence.size(), static_cast<std::size_t>(std::max(std::int64_t{start} + 1, std::int64_t{0})));
    if (len + 1 < ngram) return;
    const auto last = sequence.subspan(len - (ngram - 1), ngram - 1);
    for (std::size_t i = 0; i + ngram <= source.size(); ++i)
        if (std::ranges::equal(source.subspan(i, ngram - 1), last)) banned.push_back(source[i + ngram - 1]);
}

}  // namespace

template <std::floating_point T>
void execute(const graph::MaskLogits& op, const Operands<T>& operands) {
    const ForcedTokens forced{.first = op.forced_first, .last = op.forced_last, .last_start = op.last_start};
    for_rows(operands.rows(op.x), operands.width(op.x), [&](std::size_t row) {
        const std::int32_t start = operands.ints(op.starts)[row];
        std::vector<std::int32_t> banned(operands.ints(op.banned).begin(), operands.ints(op.banned).end());
        const std::int64_t begin = op.begins ? operands.ints(op.begins)[row] : 1;
        if (start < begin - 1 + op.late_steps)
            banned.insert(banned.end(), operands.ints(op.late).begin(), operands.ints(op.late).end());
        if (op.ngram > 0) ban_repeats(operands.ints(op.sequences, row), start, op.ngram, banned);
        if (op.source_ngram > 0)
            ban_source(operands.ints(op.source, row / (operands.rows(op.x) / operands.dim(op.source, 0))),
                       operands.ints(op.sequences, row), start, op.source_ngram, banned);
        mask_logits<T>(operands.floats(op.x, row), start, banned, forced, operands.floats(op.y, row));
    });
}
template void execute(const graph::MaskLogits&, const Operands<float>&);
template void execute(const graph::MaskLogits&, const Operands<double>&);

ErrorRule error_rule(const graph::MaskLogits&, const graph::Graph&) { return kExact; }

}  // namespace vkformer::cpu
