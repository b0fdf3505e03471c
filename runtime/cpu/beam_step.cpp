// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/stable_order.hpp"
#include "cpu/arg_max.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {
namespace {

/// The states are documented at graph::BeamStates. rows = batch · beams.
template <std::floating_point T>
struct BeamTensors {
    std::span<const T> candidate_scores;                            // [rows, k]
    std::span<const std::int32_t> candidate_tokens;                 // [rows, k]
    std::span<std::int32_t> tokens, starts, parents;                // [rows]
    std::span<T> running_scores;                                    // [rows]
    std::span<std::int32_t> token_history, parent_history;          // [max_steps, rows]
    std::span<T> final_scores;                                      // [rows]
    std::span<std::int32_t> final_steps, final_rows, final_tokens;  // [rows]
    std::span<std::int32_t> state;                                  // [batch + 3 + further tokens that end]

    std::span<const std::int32_t> further_ends(std::size_t beams) const {
        return state.subspan(tokens.size() / beams + 3);
    }
};

struct BeamRules {
    std::size_t beams, max_steps;
    std::int32_t eos;
    float length_penalty;
    graph::EarlyStopping early_stopping;
};

/// What the rules subtract from a score to put it behind all others.
constexpr float kBeamPenalty = 1e9f;

/// A continuation of a running hypothesis.
struct BeamCandidate {
    float score;  // sum of log-probabilities
    std::int32_t row, token;
    bool hits;  // it ends here: eos, or the last step
};

/// A finished hypothesis; steps 0: an empty slot.
struct BeamSlot {
    float score;  // length-penalised
    std::int32_t steps, row, token;
};

/// In order of falling score, NaN above everything; what is level keeps its order.
template <class Scored>
void sort_by_score(std::vector<Scored>& scored) {
    sort_stably(scored, [](const Scored& a, const Scored& b) { return ranks_above(a.score, b.score); });
}

/// The best continuations of the rows first … first + beams − 1, beams for each token that ends and once more, best first; on ties the lower row, then the lower token.
template <std::floating_point T>
std::vector<BeamCandidate> best_candidates(const BeamTensors<T>& s, const BeamRules& rules, std::size_t first,
                                           bool is_last_step) {
    const std::size_t k = s.candidate_scores.size() / s.tokens.size();
    const std::span<const std::int32_t> further_ends = s.further_ends(rules.beams);
    const auto ends = [&](std::int32_t token) {
        return token == rules.eos || std::ranges::find(further_ends, token) != further_ends.end();
    };
    std::vector<BeamCandidate> candidates;
    for (std::size_t row = first; row < first + rules.beams; ++row)
        for (std::size_t c = row * k; c < (row + 1) * k; ++c)
            candidates.push_back(
                {.score = static_cast<float>(s.running_scores[row]) + static_cast<float>(s.candidate_scores[c]),
                 .row = static_cast<std::int32_t>(row),
                 .token = s.candidate_tokens[c],
                 .hits = is_last_step || ends(s.candidate_tokens[c])});
    sort_stably(candidates, [](const BeamCandidate& a, const BeamCandidate& b) {
        return a.row != b.row ? a.row < b.row : a.token < b.token;
    });
    sort_by_score(candidates);
    candidates.resize((2 + further_ends.size()) * rules.beams);
    return candidates;
}

/// The finished hypotheses of one sequence after this step.
/// Only the first `beams` candidates may finish, and none where `is_closed`.
std::vector<BeamSlot> merge_finished(std::vector<BeamSlot> slots, std::span<const BeamCandidate> candidates,
                                     std::int32_t steps, float length_norm, bool is_closed) {
    const std::size_t beams = slots.size();
    for (std::size_t c = 0; c < candidates.size(); ++c) {
        const bool finishes = candidates[c].hits && c < beams;
        BeamSlot slot{.score = candidates[c].score / length_norm,
                      .steps = finishes ? steps : 0,
                      .row = candidates[c].row,
                      .token = candidates[c].token};
        if (is_closed) slot.score -= kBeamPenalty;
        if (!finishes) slot.score -= kBeamPenalty;
        slots.push_back(slot);
    }
    sort_by_score(slots);
    slots.resize(beams);
    return slots;
}

/// Whether a running hypothesis could still displace a finished one. `best_running` is length-penalised.
bool can_improve(std::span<const BeamSlot> slots, float best_running) {
    const float worst = std::ranges::min(slots, {}, &BeamSlot::score).score;
    return std::ranges::any_of(
        slots, [&](const BeamSlot& slot) { return best_running > (slot.steps > 0 ? worst : -kBeamPenalty); });
}

// One step of beam search by the rules of Hugging Face generate (transformers 4.56 and 4.57, GenerationMixin._beam_search).
// Sequences that cannot improve any more, unused ones (flag 0 from the start) and everything once `done` stay as they are.
// The rules are float32 rules whatever T is: −1e9 + score is what decides, and float32 steps by 64 there.
template <std::floating_point T>
void beam_step(const BeamTensors<T>& s, const BeamRules& rules) {
    const std::size_t rows = s.tokens.size(), beams = rules.beams, batch = rows / beams;
    std::int32_t& done = s.state[batch];
    std::int32_t& step_counter = s.state[batch + 1];
    const std::size_t max_steps =
        std::min<std::size_t>(static_cast<std::uint32_t>(s.state[batch + 2]), rules.max_steps);
    if (done || step_counter < 0 || static_cast<std::size_t>(step_counter) >= max_steps) return;
    const auto step = static_cast<std::size_t>(step_counter);
    const std::int32_t steps = step_counter + 1;
    const bool is_last_step = step + 1 == max_steps;
    const auto length_norm = [&](std::size_t length) {  // length^length_penalty
        return static_cast<float>(std::pow(static_cast<double>(length), static_cast<double>(rules.length_penalty)));
    };
    // "never" asks what the best running hypothesis could reach: at most its score now over the largest norm
    const bool assumes_longest = rules.early_stopping == graph::EarlyStopping::never && rules.length_penalty > 0;

    bool any_improvable = false, all_full = true;
    for (std::size_t b = 0; b < batch; ++b) {
        if (!s.state[b]) continue;
        const std::size_t first = b * beams;
        const std::vector<BeamCandidate> candidates = best_candidates(s, rules, first, is_last_step);

        std::vector<BeamSlot> slots;
        for (std::size_t row = first; row < first + beams; ++row)
            slots.push_back({.score = static_cast<float>(s.final_scores[row]),
                             .steps = s.final_steps[row],
                             .row = s.final_rows[row],
                             .token = s.final_tokens[row]});
        const auto is_full = [&] {
            return std::ranges::all_of(slots, [](const BeamSlot& slot) { return slot.steps > 0; });
        };
        const bool is_closed = rules.early_stopping == graph::EarlyStopping::always && is_full();
        slots = merge_finished(std::move(slots), candidates, steps, length_norm(step + 1), is_closed);

        std::vector<BeamCandidate> running = candidates;
        for (BeamCandidate& candidate : running)
            if (candidate.hits) candidate.score -= kBeamPenalty;
        sort_by_score(running);

        for (std::size_t i = 0; i < beams; ++i) {
            const std::size_t row = first + i;
            s.final_scores[row] = static_cast<T>(slots[i].score);
            s.final_steps[row] = slots[i].steps;
            s.final_rows[row] = slots[i].row;
            s.final_tokens[row] = slots[i].token;
            s.running_scores[row] = static_cast<T>(running[i].score);
            s.tokens[row] = s.token_history[step * rows + row] = running[i].token;
            s.parents[row] = s.parent_history[step * rows + row] = running[i].row;
        }
        const float best_running = running[0].score / length_norm(assumes_longest ? max_steps : step + 1);
        s.state[b] = can_improve(slots, best_running) ? 1 : 0;
        any_improvable = any_improvable || s.state[b];
        all_full = all_full && is_full();
    }
    for (std::int32_t& start : s.starts) ++start;
    step_counter = steps;
    if (is_last_step || !any_improvable || (rules.early_stopping == graph::EarlyStopping::always && all_full)) done = 1;
}

}  // namespace

template <std::floating_point T>
void execute(const graph::BeamStep& op, const Operands<T>& operands) {
    beam_step<T>({.candidate_scores = operands.floats(op.candidate_scores),
                  .candidate_tokens = operands.ints(op.candidate_tokens),
                  .tokens = operands.ints(op.tokens),
                  .starts = operands.ints(op.starts),
                  .parents = operands.ints(op.parents),
                  .running_scores = operands.floats(op.running_scores),
                  .token_history = operands.ints(op.token_history),
                  .parent_history = operands.ints(op.parent_history),
                  .final_scores = operands.floats(op.final_scores),
                  .final_steps = operands.ints(op.final_steps),
                  .final_rows = operands.ints(op.final_rows),
                  .final_tokens = operands.ints(op.final_tokens),
                  .state = operands.ints(op.state)},
                 {.beams = op.beams,
                  .max_steps = op.max_steps,
                  .eos = op.eos,
                  .length_penalty = op.length_penalty,
                  .early_stopping = op.early_stopping});
}
template void execute(const graph::BeamStep&, const Operands<float>&);
template void execute(const graph::BeamStep&, const Operands<double>&);

// of its scores; the rest is integers
ErrorRule error_rule(const graph::BeamStep&, const graph::Graph&) { return {16}; }

}  // namespace vkformer::cpu
