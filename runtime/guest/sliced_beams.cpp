// SPDX-License-Identifier: MIT
#include "guest/sliced_beams.hpp"

#include <bit>

#include "core/try.hpp"

namespace vkformer::guest {
namespace {

using Update = SlicedSession::Job::Update;

/// A step's record: the beginning of `state`, then of each of these states a word per row.
constexpr std::uint32_t kFlags = 3;  // can improve, done, step
enum Column : std::uint32_t { kTokens, kParents, kFinalSteps, kFinalRows, kFinalTokens, kFinalScores, kPerRow };

std::vector<std::int32_t> as_words(std::span<const float> values) {
    std::vector<std::int32_t> words;
    for (const float value : values) words.push_back(std::bit_cast<std::int32_t>(value));
    return words;
}

vulkan::Slice row_of(vulkan::Slice slice, std::uint64_t first_word, std::uint64_t words) {
    slice.offset += first_word * sizeof(std::int32_t);
    slice.bytes = words * sizeof(std::int32_t);
    return slice;
}

}  // namespace

SlicedBeams::SlicedBeams(std::uint32_t beams, std::uint32_t most_steps, std::span<const std::int32_t> ends)
    : layout_{.beams = beams, .history = most_steps, .further_ends = ends.empty() ? 0 : ends.size() - 1} {
    if (!ends.empty()) further_ends_.assign(ends.begin() + 1, ends.end());
}

void SlicedBeams::begin(const Part& step, const graph::BeamStates& states, std::int32_t token, std::int32_t start,
                        std::uint32_t max_steps, std::vector<Update>& updates) const {
    const decoding::BeamStart values = decoding::beam_start(layout_, max_steps, further_ends_);
    updates.push_back({step.slice(states.tokens), rows(token)});
    updates.push_back({step.slice(states.starts), rows(start)});
    updates.push_back({step.slice(states.parents), values.parents});
    updates.push_back({step.slice(states.running_scores), as_words(values.running_scores)});
    updates.push_back({step.slice(states.final_scores), as_words(values.final_scores)});
    for (const graph::Value zero : {states.final_steps, states.final_rows, states.final_tokens})
        updates.push_back({step.slice(zero), rows(0)});
    updates.push_back({step.slice(states.state), values.state});
}

std::vector<vulkan::Slice> SlicedBeams::results(const Part& step, const graph::BeamStates& states,
                                                std::uint32_t index) const {
    const std::uint64_t rows = layout_.rows();
    std::vector<vulkan::Slice> slices = {row_of(step.slice(states.state), 0, kFlags)};
    for (const graph::Value history : {states.token_history, states.parent_history})
        slices.push_back(row_of(step.slice(history), index * rows, rows));
    for (const graph::Value state : {states.final_steps, states.final_rows, states.final_tokens, states.final_scores})
        slices.push_back(row_of(step.slice(state), 0, rows));
    return slices;
}

std::uint32_t SlicedBeams::result_words() const noexcept { return kFlags + kPerRow * beams(); }

Result<SlicedSession::Outcome> SlicedBeams::outcome(std::uint32_t index, std::span<const std::int32_t> records) const {
    const std::size_t words = result_words();
    const auto part = [&](std::size_t step, std::uint32_t which) {
        return records.subspan(step * words + kFlags + which * beams(), beams());
    };
    SlicedSession::Outcome outcome;
    outcome.is_done = records[index * words + 1] != 0;
    if (!outcome.is_done) return outcome;
    std::vector<std::int32_t> tokens, parents;
    for (std::size_t step = 0; step <= index; ++step) {
        tokens.insert(tokens.end(), part(step, kTokens).begin(), part(step, kTokens).end());
        parents.insert(parents.end(), part(step, kParents).begin(), part(step, kParents).end());
    }
    std::vector<float> scores;
    for (const std::int32_t word : part(index, kFinalScores)) scores.push_back(std::bit_cast<float>(word));
    VKFORMER_TRY(auto best, decoding::best_hypothesis({.token_history = tokens,
                                                       .parent_history = parents,
                                                       .final_steps = part(index, kFinalSteps),
                                                       .final_rows = part(index, kFinalRows),
                                                       .final_tokens = part(index, kFinalTokens),
                                                       .final_scores = scores},
                                                      layout_, 0));
    outcome.tokens = std::move(best.tokens);
    outcome.score = best.score;
    return outcome;
}

}  // namespace vkformer::guest
