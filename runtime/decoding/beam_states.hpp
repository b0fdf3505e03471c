// SPDX-License-Identifier: MIT
/// The states of a beam search: made, what they begin with, what they say in the end.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/builders.hpp"

namespace vkformer::decoding {

struct BeamLayout {
    std::uint64_t batch = 1, beams = 1;
    std::uint64_t history = 1;       ///< steps that a search may take
    std::uint64_t further_ends = 0;  ///< tokens that end a hypothesis besides BeamOptions::eos

    std::uint64_t rows() const noexcept { return batch * beams; }
};

/// `tokens` and `starts` are the step's input.
Result<graph::BeamStates> add_beam_states(graph::Graph& graph, const BeamLayout& layout, graph::Value tokens,
                                          graph::Value starts);

/// What the states are before the first step but for tokens and starts; those that are not here are 0.
struct BeamStart {
    std::vector<std::int32_t> parents, state;
    std::vector<float> running_scores, final_scores;
};
/// A search whose hypotheses have `steps` tokens already, which their length counts, and are to have `max_steps` at most.
BeamStart beam_start(const BeamLayout& layout, std::uint32_t steps, std::uint32_t max_steps,
                     std::span<const std::int32_t> further_ends);

struct BeamHypothesis {
    std::vector<std::int32_t> tokens;  ///< what was generated, the end token included
    float score = 0;                   ///< Σ log p / length^length_penalty
    std::vector<std::size_t> rows;     ///< of the search, that had each of the tokens but the last when it was chosen
};
/// What a search has left in the states of the same names.
struct BeamTables {
    std::span<const std::int32_t> token_history, parent_history;          ///< [steps, rows]
    std::span<const std::int32_t> final_steps, final_rows, final_tokens;  ///< [rows]
    std::span<const float> final_scores;                                  ///< [rows]
};
/// What was finished of a sequence, after the search, the best first: 1 to layout.beams. Errors: InvalidArgument (the logits were NaN).
Result<std::vector<BeamHypothesis>> ranked_hypotheses(const BeamTables& tables, const BeamLayout& layout,
                                                      std::size_t sequence);

}  // namespace vkformer::decoding
