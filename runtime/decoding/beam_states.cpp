// SPDX-License-Identifier: MIT
#include "decoding/beam_states.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "core/try.hpp"
#include "decoding/script.hpp"

namespace vkformer::decoding {
namespace {

using graph::BeamStates;
using graph::Graph;
using graph::Value;

/// Hugging Face's score of a hypothesis that must not win, in float32.
constexpr float kNever = -1e9f;

/// The finished hypothesis of that place in the tables, followed back from its end.
Result<BeamHypothesis> hypothesis_at(const BeamTables& tables, const BeamLayout& layout, std::size_t sequence,
                                     std::size_t place) {
    const std::size_t rows = layout.rows(), beams = layout.beams;
    const auto steps = static_cast<std::size_t>(tables.final_steps[place]);
    BeamHypothesis result = {.tokens = std::vector<std::int32_t>(steps),
                             .score = tables.final_scores[place],
                             .rows = std::vector<std::size_t>(steps - 1)};
    result.tokens.back() = tables.final_tokens[place];
    auto row = static_cast<std::size_t>(tables.final_rows[place]);
    for (std::size_t t = steps - 1; t-- > 0;) {
        if (row / beams != sequence)
            return Error{.code = ErrorCode::InvalidArgument,
                         .message = "the beam search lost a hypothesis: its history leads to row " +
                                    std::to_string(row) + "; are the device's results right?",
                         .hint = Hint::validate};
        result.tokens[t] = tables.token_history[t * rows + row];
        result.rows[t] = row;
        row = static_cast<std::size_t>(tables.parent_history[t * rows + row]);
    }
    return result;
}

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
    VKFORMER_TRY(states.state, graph.state("state", DType::i32, {layout.batch + 3 + layout.further_ends}));
    return states;
}

BeamStart beam_start(const BeamLayout& layout, std::uint32_t steps, std::uint32_t max_steps,
                     std::span<const std::int32_t> further_ends) {
    BeamStart start = {.parents = std::vector<std::int32_t>(layout.rows()),
                       .state = std::vector<std::int32_t>(layout.batch + 3, 0),
                       .running_scores = std::vector<float>(layout.rows(), kNever),
                       .final_scores = std::vector<float>(layout.rows(), kNever)};
    std::iota(start.parents.begin(), start.parents.end(), 0);
    for (std::size_t row = 0; row < layout.rows(); row += layout.beams) start.running_scores[row] = 0;
    std::fill_n(start.state.begin(), layout.batch, 1);
    start.state[layout.batch + 1] = static_cast<std::int32_t>(steps);
    start.state[layout.batch + 2] = static_cast<std::int32_t>(max_steps);
    start.state.insert(start.state.end(), further_ends.begin(), further_ends.end());
    return start;
}

Result<std::vector<BeamHypothesis>> ranked_hypotheses(const BeamTables& tables, const BeamLayout& layout,
                                                      std::size_t sequence) {
    std::vector<BeamHypothesis> ranked;
    for (std::size_t rank = 0; rank < layout.beams; ++rank) {
        const std::size_t place = sequence * layout.beams + rank;  // finished hypotheses are sorted
        const auto steps = static_cast<std::size_t>(tables.final_steps[place]);
        if (steps == 0 || steps > tables.token_history.size() / layout.rows()) break;
        VKFORMER_TRY(auto hypothesis, hypothesis_at(tables, layout, sequence, place));
        ranked.push_back(std::move(hypothesis));
    }
    if (ranked.empty()) return no_choice();
    return ranked;
}

}  // namespace vkformer::decoding
