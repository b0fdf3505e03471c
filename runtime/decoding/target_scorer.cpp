// SPDX-License-Identifier: MIT
#include "decoding/target_scorer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "core/stable_order.hpp"
#include "core/try.hpp"
#include "decoding/invalid.hpp"
#include "decoding/rounded_len.hpp"
#include "decoding/script.hpp"
#include "decoding/tensor_io.hpp"

namespace vkformer::decoding {

Result<TargetScorer::Pass> TargetScorer::pass(const Kind& kind) const {
    VKFORMER_TRY(auto forward, model_->forward({.batch = kind.batch,
                                                .source_len = kind.source_len,
                                                .target_len = kind.target_len,
                                                .dtype = dtype_,
                                                .weights = weights_,
                                                .source_mask = models::SourceMask::lengths}));
    Pass pass = {.graph = std::move(forward.graph),
                 .source_tokens = forward.source_tokens,
                 .source_lengths = forward.source_lengths,
                 .target_tokens = forward.target_tokens,
                 .given = {}};
    const Shape shape = pass.graph.shape(forward.logits);
    VKFORMER_TRY(const graph::Value logits, pass.graph.reshape(forward.logits, {shape[0] * shape[1], shape[2]}));
    VKFORMER_TRY(pass.given, add_given_log_probs(pass.graph, logits, kind.likeliest));
    return pass;
}

/// Rows that no text needs have one token.
Result<void> TargetScorer::run_batch(const Programs::Prepared& prepared, std::span<const ScoredTarget> texts,
                                     std::span<const std::size_t> chosen, std::uint32_t likeliest,
                                     std::vector<std::vector<StepLogProbs>>& results) const {
    const Kind& kind = prepared.key;
    const Pass& pass = prepared.tensors;
    graph::Program& program = *prepared.program;
    const std::size_t source_len = kind.source_len, target_len = kind.target_len;
    std::vector<std::int32_t> source(kind.batch * source_len, 0), target(kind.batch * target_len, 0);
    std::vector<std::int32_t> lengths(kind.batch, 1), places(kind.batch * target_len, 0);
    for (std::size_t row = 0; row < chosen.size(); ++row) {
        const ScoredTarget& text = texts[chosen[row]];
        std::ranges::copy(text.source, source.begin() + static_cast<std::ptrdiff_t>(row * source_len));
        lengths[row] = static_cast<std::int32_t>(text.source.size());
        for (std::size_t i = 0; i + 1 < text.target.size(); ++i) {
            const std::size_t position = row * target_len + i;
            target[position] = text.target[i];
            places[position] = pass.given.place(position, text.target[i + 1]);
        }
    }
    VKFORMER_CHECK(write_ints(program, pass.source_tokens, source));
    VKFORMER_CHECK(write_ints(program, pass.source_lengths, lengths));
    VKFORMER_CHECK(write_ints(program, pass.target_tokens, target));
    VKFORMER_CHECK(write_ints(program, pass.given.places, places));
    VKFORMER_CHECK(program.submit());
    VKFORMER_CHECK(program.wait());
    VKFORMER_TRY(const auto scores, read_words(program, pass.given.scores));
    std::vector<std::int32_t> tokens, values;
    if (kind.likeliest > 0) {
        VKFORMER_TRY(tokens, read_words(program, pass.given.tokens));
        VKFORMER_TRY(values, read_words(program, pass.given.values));
    }
    for (std::size_t row = 0; row < chosen.size(); ++row) {
        const auto& text = texts[chosen[row]].target;
        for (std::size_t i = 0; i + 1 < text.size(); ++i) {
            const std::size_t position = row * target_len + i;
            StepLogProbs found = given_log_probs(pass.given, scores, tokens, values, position, text[i + 1], likeliest);
            if (std::isnan(found.chosen.log_prob)) {
                return numbered("text", chosen[row], no_choice());
            }
            results[chosen[row]].push_back(std::move(found));
        }
    }
    return {};
}

Result<std::vector<std::vector<StepLogProbs>>> TargetScorer::run(std::span<const ScoredTarget> texts,
                                                                 std::uint32_t likeliest, const Progress& progress) {
    constexpr std::uint32_t kMostTexts = 32;
    constexpr std::uint64_t kMostNumbers = std::uint64_t{1} << 28;  // of logits: 1 GiB
    VKFORMER_CHECK(check_log_probs(likeliest));
    const auto limits = model_->limits();
    for (std::size_t i = 0; i < texts.size(); ++i)
        if (rounded_len(texts[i].target.size(), limits.target_len) * limits.target_vocab > kMostNumbers)
            return numbered("text", i,
                            invalid("its target of " + std::to_string(texts[i].target.size()) +
                                    " tokens is scored at once, and may have " +
                                    std::to_string(kMostNumbers / limits.target_vocab) + " with a vocabulary of " +
                                    std::to_string(limits.target_vocab)));
    const auto order = stable_order(texts.size(), [&](std::size_t a, std::size_t b) {
        return std::pair(texts[a].target.size(), texts[a].source.size()) >
               std::pair(texts[b].target.size(), texts[b].source.size());
    });
    std::vector<std::vector<StepLogProbs>> results(texts.size());
    for (std::size_t first = 0; first < order.size();) {
        VKFORMER_CHECK(backend_->check_wanted());
        const std::size_t longest = std::max<std::size_t>(texts[order[first]].target.size(), 2) - 1;
        const std::uint32_t target_len = rounded_len(longest, limits.target_len);
        const std::uint32_t most = std::clamp(most_given(limits.target_vocab) / target_len, 1u, kMostTexts);
        const auto chosen = std::span(order).subspan(first, std::min<std::size_t>(most, order.size() - first));
        std::size_t source = 0;
        for (const std::size_t i : chosen) source = std::max(source, texts[i].source.size());
        const auto rows = static_cast<std::uint32_t>(chosen.size());
        const Kind kind = {.batch = std::min(std::bit_ceil(rows), most),
                           .source_len = rounded_len(source, limits.source_len),
                           .target_len = target_len,
                           .likeliest = likeliest_for(likeliest, limits.target_vocab)};
        VKFORMER_TRY(const auto* prepared, programs_.get(kind, [&] { return pass(kind); }));
        VKFORMER_CHECK(run_batch(*prepared, texts, chosen, likeliest, results));
        first += chosen.size();
        if (progress) progress(first, order.size());
    }
    return results;
}

}  // namespace vkformer::decoding
