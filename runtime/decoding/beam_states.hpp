// SPDX-License-Identifier: MIT
/// The states of a beam search: made, begun and read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/builders.hpp"
#include "graph/program.hpp"

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

/// What they are before the first step, but for tokens and starts: the first step draws from the first beam only.
Result<void> begin_beams(graph::Program& program, const graph::BeamStates& states, const BeamLayout& layout,
                         std::span<const std::int32_t> further_ends = {});

struct BeamHypothesis {
    std::vector<std::int32_t> tokens;  ///< what was generated, the end token included
    float score = 0;                   ///< Σ log p / length^length_penalty
};
/// The best of each of the first `count` sequences, after the search. Errors: InvalidArgument (the logits were NaN).
Result<std::vector<BeamHypothesis>> best_hypotheses(graph::Program& program, const graph::BeamStates& states,
                                                    const BeamLayout& layout, std::size_t count);

}  // namespace vkformer::decoding
