// SPDX-License-Identifier: MIT
#include "decoding/beam_states.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "core/try.hpp"
#include "decoding/tensor_io.hpp"

namespace vkformer::decoding {
namespace {

using graph::BeamStates;
using graph::Graph;
using graph::Program;
using graph::Value;

/// Hugging Face's score of a hypothesis that must not win, in float32.
constexpr float kNever = -1e9f;

}  // namespace

Result<BeamStates> add_beam_states(Graph& graph, const BeamLayout& layout, Value tokens, Value starts) {
    const Shape rows = {layout.rows()}, history = {layout.history, layout.rows()};
    BeamStates states;
    states.tokens = tokens;
    states.starts = starts;
    VKFORMER_TRY(states.parents, graph.state("parents", DType::i32, rows));
    VKFORMER_TRY(states.running_scores, graph.state("running_scores", DType::f32, rows));
    VKFORMER_TRY(states.token_history, graph.state("token_history", DType::i32, history));
    VKFORMER_TRY(states.parent_history, graph.state("parent_history", DType::i32, history));
    VKFORMER_TRY(states.final_scores, graph.state("final_scores", DType::f32, rows));
    VKFORMER_TRY(states.final_steps, graph.state("final_steps", DType::i32, rows));
    VKFORMER_TRY(states.final_rows, graph.state("final_rows", DType::i32, rows));
    VKFORMER_TRY(states.final_tokens, graph.state("final_tokens", DType::i32, rows));
    VKFORMER_TRY(states.state, graph.state("state", DType::i32, {layout.batch + 2 + layout.further_ends}));
    return states;
}

Result<void> begin_beams(Program& program, const BeamStates& states, const BeamLayout& layout,
                         std::span<const std::int32_t> further_ends) {
    std::vector<std::int32_t> parents(layout.rows());
    std::iota(parents.begin(), parents.end(), 0);
    std::vector<float> running(layout.rows(), kNever);
    for (std::size_t row = 0; row < running.size(); row += layout.beams) running[row] = 0;
    const std::vector<float> never(layout.rows(), kNever);
    std::vector<std::int32_t> flags(layout.batch + 2, 0);
    std::fill_n(flags.begin(), layout.batch, 1);
    flags.insert(flags.end(), further_ends.begin(), further_ends.end());
    VKFORMER_CHECK(write_ints(program, states.parents, parents));
    VKFORMER_CHECK(write_floats(program, states.running_scores, running));
    VKFORMER_CHECK(write_floats(program, states.final_scores, never));
    for (const Value zero : {states.final_steps, states.final_rows, states.final_tokens})
        VKFORMER_CHECK(fill_ints(program, zero, 0));
    return write_ints(program, states.state, flags);
}

Result<std::vector<BeamHypothesis>> best_hypotheses(Program& program, const BeamStates& states,
                                                    const BeamLayout& layout, std::size_t count) {
    const std::size_t rows = layout.rows(), beams = layout.beams;
    VKFORMER_TRY(const auto tokens, read_ints(program, states.token_history));
    VKFORMER_TRY(const auto parents, read_ints(program, states.parent_history));
    VKFORMER_TRY(const auto final_steps, read_ints(program, states.final_steps));
    VKFORMER_TRY(const auto final_rows, read_ints(program, states.final_rows));
    VKFORMER_TRY(const auto final_tokens, read_ints(program, states.final_tokens));
    VKFORMER_TRY(const auto scores, read_tensor<float>(program, states.final_scores));
    std::vector<BeamHypothesis> results(count);
    for (std::size_t b = 0; b < count; ++b) {
        const std::size_t best = b * beams;  // finished hypotheses are sorted
        const auto steps = static_cast<std::size_t>(final_steps[best]);
        if (steps == 0 || steps > layout.history)
            return Error{ErrorCode::InvalidArgument, "the beam search finished no hypothesis: are the logits NaN?"};
        results[b].score = scores[best];
        results[b].tokens.resize(steps);
        results[b].tokens.back() = final_tokens[best];
        auto row = static_cast<std::size_t>(final_rows[best]);
        for (std::size_t t = steps - 1; t-- > 0;) {
            if (row / beams != b)
                return Error{ErrorCode::InvalidArgument,
                             "the beam search lost a hypothesis: its history leads to row " + std::to_string(row) +
                                 "; see vkformer validate"};
            results[b].tokens[t] = tokens[t * rows + row];
            row = static_cast<std::size_t>(parents[t * rows + row]);
        }
    }
    return results;
}

}  // namespace vkformer::decoding
