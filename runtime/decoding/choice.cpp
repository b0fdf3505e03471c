// SPDX-License-Identifier: MIT
#include "decoding/choice.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/try.hpp"

namespace vkformer::decoding {
namespace {

std::vector<std::int32_t> as_words(std::span<const float> values) {
    std::vector<std::int32_t> words;
    for (const float value : values) words.push_back(std::bit_cast<std::int32_t>(value));
    return words;
}

/// The places in BeamChoice::reads.
enum Column : std::size_t { kState, kTokens, kParents, kFinalSteps, kFinalRows, kFinalTokens, kFinalScores };

}  // namespace

void GreedyChoice::begin(const ChoiceStart& start, std::vector<Write>& writes) {
    start_ = static_cast<std::uint32_t>(start.position) - start.counted;
    writes.push_back({states_.tokens, {start.tokens.begin(), start.tokens.end()}});
    writes.push_back({states_.starts, std::vector(rows_, start.position)});
    writes.push_back({states_.finished, std::vector<std::int32_t>(rows_, 0)});
}

std::vector<Read> GreedyChoice::reads(std::uint32_t step) const {
    return {{states_.history, (std::uint64_t{start_} + step) * rows_, rows_}};
}

Result<bool> GreedyChoice::take(std::uint32_t first, std::uint32_t last, std::uint32_t max_steps, Records& records,
                                std::span<Answer> answers) const {
    const auto is_over = [&](const Answer& answer) { return !answer.tokens.empty() && answer.tokens.back() == eos_; };
    for (std::uint32_t step = first; step < last; ++step) {
        VKFORMER_TRY(const auto tokens, records.get(step, 0));
        for (std::size_t i = 0; i < answers.size(); ++i) {
            if (is_over(answers[i])) continue;
            if (tokens[i] == kNoChoice) return no_choice();
            answers[i].tokens.push_back(tokens[i]);
        }
    }
    return last >= max_steps || std::ranges::all_of(answers, is_over);
}

void BeamChoice::begin(const ChoiceStart& start, std::vector<Write>& writes) {
    counted_ = start.counted;
    const BeamStart values = beam_start(layout_, counted_, start.max_steps, further_ends_);
    const std::size_t rows = layout_.rows();
    std::vector<std::int32_t> of_rows;
    for (const std::int32_t token : start.tokens) of_rows.insert(of_rows.end(), layout_.beams, token);
    writes.push_back({states_.tokens, std::move(of_rows)});
    writes.push_back({states_.starts, std::vector(rows, start.position)});
    writes.push_back({states_.parents, values.parents});
    writes.push_back({states_.running_scores, as_words(values.running_scores)});
    writes.push_back({states_.final_scores, as_words(values.final_scores)});
    for (const graph::Value zero : {states_.final_steps, states_.final_rows, states_.final_tokens})
        writes.push_back({zero, std::vector<std::int32_t>(rows, 0)});
    writes.push_back({states_.state, values.state});
}

std::vector<Read> BeamChoice::reads(std::uint32_t step) const {
    const std::uint64_t rows = layout_.rows(), at = step * rows;
    return {{states_.state, layout_.batch, 1}, {states_.token_history, at, rows}, {states_.parent_history, at, rows},
            {states_.final_steps, 0, rows},    {states_.final_rows, 0, rows},     {states_.final_tokens, 0, rows},
            {states_.final_scores, 0, rows}};
}

Result<bool> BeamChoice::take(std::uint32_t, std::uint32_t last, std::uint32_t max_steps, Records& records,
                              std::span<Answer> answers) const {
    VKFORMER_TRY(const auto flags, records.get(last - 1, kState));
    if (flags[0] == 0 && last < max_steps) return false;
    std::vector<std::int32_t> tokens, parents;
    for (std::uint32_t step = counted_; step < last; ++step) {
        VKFORMER_TRY(const auto chosen, records.get(step, kTokens));
        VKFORMER_TRY(const auto from, records.get(step, kParents));
        tokens.insert(tokens.end(), chosen.begin(), chosen.end());
        parents.insert(parents.end(), from.begin(), from.end());
    }
    VKFORMER_TRY(const auto whole_steps, records.get(last - 1, kFinalSteps));
    std::vector<std::int32_t> final_steps;
    for (const std::int32_t steps : whole_steps)
        final_steps.push_back(std::max(0, steps - static_cast<std::int32_t>(counted_)));
    VKFORMER_TRY(const auto final_rows, records.get(last - 1, kFinalRows));
    VKFORMER_TRY(const auto final_tokens, records.get(last - 1, kFinalTokens));
    VKFORMER_TRY(const auto score_words, records.get(last - 1, kFinalScores));
    std::vector<float> scores;
    for (const std::int32_t word : score_words) scores.push_back(std::bit_cast<float>(word));
    const BeamTables tables = {.token_history = tokens,
                               .parent_history = parents,
                               .final_steps = final_steps,
                               .final_rows = final_rows,
                               .final_tokens = final_tokens,
                               .final_scores = scores};
    for (std::size_t i = 0; i < answers.size(); ++i) {
        VKFORMER_TRY(auto ranked, ranked_hypotheses(tables, layout_, i));
        if (std::isnan(ranked[0].score)) return no_choice();
        answers[i] = {.tokens = std::move(ranked[0].tokens), .score = ranked[0].score, .further = {}};
        for (BeamHypothesis& next : std::span(ranked).subspan(1))
            answers[i].further.push_back({.tokens = std::move(next.tokens), .score = next.score, .further = {}});
    }
    return true;
}

}  // namespace vkformer::decoding
