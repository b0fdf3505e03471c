#version 460
// SPDX-License-Identifier: MIT
// One step of beam search by the rules of Hugging Face generate (transformers 4.56, GenerationMixin._beam_search) for `batch`
// sequences of `beams` rows each. candidate_scores: f32 [rows, k], candidate_tokens: i32 [rows, k], k ≥ 2; the states are
// described at graph::BeamStates. Scores are float32, in the order of lib/order.glsl; level ones are taken lower row first, then
// lower token. Sequences that cannot improve any more, and everything once `done` or beyond its limit, stay as they are.
// One workgroup for all; an invocation owns the sequences that are ≡ its index modulo the workgroup's size and works through
// one alone: the lists are short (2 · beams) and each choice depends on the one before. They lie in shared memory, a part of it
// for each invocation: (28 + 16 · KEPT) · BEAMS bytes. As private arrays they filled Apple's and Adreno's registers and spilled.
// A device that allows a shader fewer than 13 storage buffers does a step in two dispatches with 8 each: RUNNING_ONLY finds the
// continuations, lets the best run on and leaves all of them to FINISHED_ONLY, which does the rest.
#extension GL_GOOGLE_include_directive : require
#include "beam_step/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kBeamStepSequences) const uint SEQUENCES = 1;
layout(constant_id = kBeamStepBeams) const uint BEAMS = 1;
layout(constant_id = kBeamStepKept) const uint KEPT = 2;  // continuations looked at per beam: 1 + tokens that end
layout(push_constant) uniform Push { PART_OF_GRID BeamStepPush p; };
#ifndef FINISHED_ONLY
layout(std430, binding = kBeamStepCandidateScores) readonly buffer CandidateScores { float candidate_scores[]; };
layout(std430, binding = kBeamStepCandidateTokens) readonly buffer CandidateTokens { int candidate_tokens[]; };
layout(std430, binding = kBeamStepTokens) writeonly buffer Tokens { int tokens[]; };
layout(std430, binding = kBeamStepStarts) buffer Starts { uint starts[]; };
layout(std430, binding = kBeamStepParents) writeonly buffer Parents { uint parents[]; };
layout(std430, binding = kBeamStepRunningScores) buffer RunningScores { float running_scores[]; };
#endif
#ifndef RUNNING_ONLY
layout(std430, binding = kBeamStepTokenHistory) writeonly buffer TokenHistory { int token_history[]; };
layout(std430, binding = kBeamStepParentHistory) writeonly buffer ParentHistory { uint parent_history[]; };
layout(std430, binding = kBeamStepFinalScores) buffer FinalScores { float final_scores[]; };
layout(std430, binding = kBeamStepFinalSteps) buffer FinalSteps { int final_steps[]; };
layout(std430, binding = kBeamStepFinalRows) buffer FinalRows { uint final_rows[]; };
layout(std430, binding = kBeamStepFinalTokens) buffer FinalTokens { int final_tokens[]; };
#endif
layout(std430, binding = kBeamStepState) buffer State { int state[]; };
#include "lib/order.glsl"

const float kPenalty = 1.0e9;  // what generate subtracts from a score to put it behind all others

// A continuation of a running hypothesis, or a finished hypothesis.
struct Hypothesis {
    float score;
    int token;  // its last one
    uint row;   // whose history precedes that
    int steps;  // of a finished one: its number of tokens; else 0
};

shared Hypothesis continuations[SEQUENCES * KEPT * BEAMS];  // of the sequence at hand, best first
shared Hypothesis slots[SEQUENCES * BEAMS];              // its finished hypotheses as they were before this step
#ifndef RUNNING_ONLY
shared uint any_improvable, any_slot_free;
#endif
#if defined(RUNNING_ONLY) || defined(FINISHED_ONLY)
layout(std430, binding = kBeamStepContinuations) buffer Continuations { Hypothesis kept[]; };  // [rows, KEPT]
#endif

// Where this invocation's share of a list begins whose elements each beam has one of.
uint mine() { return gl_LocalInvocationIndex * BEAMS; }

// Tokens that this search generates at most.
uint limit() { return min(uint(state[p.batch + 2]), p.max_steps); }
bool is_last_step(uint step) { return step + 1 >= limit(); }
bool ends(Hypothesis continuation, uint step) {
    bool is_end = is_last_step(step) || continuation.token == p.eos;
    for (uint i = 2; i < KEPT; ++i) is_end = is_end || continuation.token == state[p.batch + 1 + i];
    return is_end;
}

// length^length_penalty. pow() is off by some units in the last place, which would part hypotheses that are level; whole powers,
// the common ones, are therefore multiplied out.
float length_norm(uint length) {
    const float power = abs(p.length_penalty);
    if (power != trunc(power) || power > 8.0) return pow(float(length), p.length_penalty);
    float norm = 1.0;
    for (float i = 0.0; i < power; i += 1.0) norm *= float(length);
    return p.length_penalty < 0.0 ? 1.0 / norm : norm;
}

#ifdef FINISHED_ONLY
// What the dispatch before found.
void find_continuations(uint first_row) {
    for (uint c = 0; c < KEPT * p.beams; ++c) continuations[KEPT * mine() + c] = kept[KEPT * first_row + c];
}
#else
// The candidate at `position` of a row, with what decides its place.
struct Ranked {
    uint key;
    int token;
    uint position;
};

shared Ranked nexts[SEQUENCES * BEAMS];  // of each row of the sequence at hand

bool comes_before(Ranked a, Ranked b) {
    if (a.key != b.key) return a.key > b.key;
    return a.token < b.token || (a.token == b.token && a.position < b.position);
}

float continued_score(uint row, uint position) {
    return running_scores[row] + candidate_scores[row * p.k + position];
}

// The row's first candidate after `previous`; its key is 0 where there is none.
Ranked next_of_row(uint row, Ranked previous) {
    Ranked best = Ranked(kAfterAll.key, 0x7FFFFFFF, 0);
    for (uint position = 0; position < p.k; ++position) {
        const uint key = order_key(floatBitsToUint(continued_score(row, position)));
        const Ranked candidate = Ranked(key, candidate_tokens[row * p.k + position], position);
        if (comes_before(previous, candidate) && comes_before(candidate, best)) best = candidate;
    }
    return best;
}

// The KEPT · beams best continuations, merged from the rows' lists.
void find_continuations(uint first_row) {
    const uint next = mine(), first = KEPT * mine();
    for (uint beam = 0; beam < p.beams; ++beam)
        nexts[next + beam] = next_of_row(first_row + beam, Ranked(kBeforeAll.key, 0, 0));
    for (uint c = 0; c < KEPT * p.beams; ++c) {
        Candidate best = Candidate(nexts[next].key, 0);
        for (uint beam = 1; beam < p.beams; ++beam) {
            const Candidate candidate = Candidate(nexts[next + beam].key, beam);
            if (comes_before(candidate, best)) best = candidate;
        }
        const Ranked chosen = nexts[next + best.index];
        const uint row = first_row + best.index;
        continuations[first + c] = Hypothesis(continued_score(row, chosen.position), chosen.token, row, 0);
        nexts[next + best.index] = next_of_row(row, chosen);
#ifdef RUNNING_ONLY
        kept[KEPT * first_row + c] = continuations[first + c];
#endif
    }
}
#endif

// The `beams` best continuations run on; one that ends does so only for want of others. Returns the best one's score.
float choose_running(uint first_row, uint step) {
    const uint first = KEPT * mine();
    Candidate chosen = kBeforeAll;
    float best_running = 0.0;
    for (uint beam = 0; beam < p.beams; ++beam) {
        Candidate best = kAfterAll;
        float best_score = 0.0;
        for (uint c = 0; c < KEPT * p.beams; ++c) {
            const Hypothesis continuation = continuations[first + c];
            const float score = continuation.score - (ends(continuation, step) ? kPenalty : 0.0);
            const Candidate candidate = Candidate(order_key(floatBitsToUint(score)), c);
            if (!comes_before(chosen, candidate) || !comes_before(candidate, best)) continue;
            best = candidate;
            best_score = score;
        }
        chosen = best;
        if (beam == 0) best_running = best_score;
        const Hypothesis next = continuations[first + best.index];
        const uint row = first_row + beam;
#ifndef FINISHED_ONLY
        running_scores[row] = best_score;
        tokens[row] = next.token;
        parents[row] = next.row;
#endif
#ifndef RUNNING_ONLY
        token_history[step * p.batch * p.beams + row] = next.token;
        parent_history[step * p.batch * p.beams + row] = next.row;
#endif
    }
    return best_running;
}

#ifndef RUNNING_ONLY
// Merges the continuations that end into the finished hypotheses. Changes the scores of the continuations.
void choose_finished(uint first_row, uint step) {
    const uint old = mine(), first = KEPT * mine();
    bool is_full = true;
    for (uint slot = 0; slot < p.beams; ++slot) {
        const uint row = first_row + slot;
        slots[old + slot] = Hypothesis(final_scores[row], final_tokens[row], final_rows[row], final_steps[row]);
        is_full = is_full && slots[old + slot].steps > 0;
    }
    const bool is_closed = is_full && p.early_stopping == kBeamStepAlways;
    const float norm = length_norm(step + 1);
    for (uint c = 0; c < KEPT * p.beams; ++c) {
        const bool finishes = ends(continuations[first + c], step) && c < p.beams;  // one that ends but ranks below is thrown away
        continuations[first + c].steps = finishes ? int(step + 1) : 0;
        continuations[first + c].score /= norm;
        if (is_closed) continuations[first + c].score -= kPenalty;
        if (!finishes) continuations[first + c].score -= kPenalty;
    }

    Candidate chosen = kBeforeAll;
    for (uint slot = 0; slot < p.beams; ++slot) {
        Candidate best = kAfterAll;
        for (uint i = 0; i < (1 + KEPT) * p.beams; ++i) {
            const float score = i < p.beams ? slots[old + i].score : continuations[first + i - p.beams].score;
            const Candidate candidate = Candidate(order_key(floatBitsToUint(score)), i);
            if (comes_before(chosen, candidate) && comes_before(candidate, best)) best = candidate;
        }
        chosen = best;
        const Hypothesis next = best.index < p.beams ? slots[old + best.index] : continuations[first + best.index - p.beams];
        const uint row = first_row + slot;
        final_scores[row] = next.score;
        final_tokens[row] = next.token;
        final_rows[row] = next.row;
        final_steps[row] = next.steps;
        if (next.steps == 0) atomicOr(any_slot_free, 1);
    }
}

// Whether a running hypothesis could still displace a finished one. The slots are in falling order, the last is the worst.
bool can_improve(uint first_row, uint step, float best_running) {
    const bool assumes_longest = p.early_stopping == kBeamStepNever && p.length_penalty > 0.0;
    const float best = best_running / length_norm(assumes_longest ? limit() : step + 1);
    const float worst = final_scores[first_row + p.beams - 1];
    for (uint slot = 0; slot < p.beams; ++slot)
        if (best > (final_steps[first_row + slot] > 0 ? worst : -kPenalty)) return true;
    return false;
}
#endif

void main() {
    const uint step = uint(state[p.batch + 1]);
    if (state[p.batch] != 0 || step >= limit()) return;  // the whole workgroup leaves
#ifndef RUNNING_ONLY
    if (gl_LocalInvocationIndex == 0) any_improvable = any_slot_free = 0;
    barrier();
#endif
    for (uint sequence = gl_LocalInvocationIndex; sequence < p.batch; sequence += gl_WorkGroupSize.x) {
        if (state[sequence] == 0) continue;
        const uint first_row = sequence * p.beams;
        find_continuations(first_row);
        const float best_running = choose_running(first_row, step);
#ifndef RUNNING_ONLY
        choose_finished(first_row, step);
        const bool improvable = can_improve(first_row, step, best_running);
        state[sequence] = improvable ? 1 : 0;
        if (improvable) atomicOr(any_improvable, 1);
#endif
    }
#ifndef FINISHED_ONLY
    for (uint row = gl_LocalInvocationIndex; row < p.batch * p.beams; row += gl_WorkGroupSize.x) starts[row] += 1;
#endif
#ifndef RUNNING_ONLY
    barrier();
    if (gl_LocalInvocationIndex == 0) {
        const bool all_full = p.early_stopping == kBeamStepAlways && any_slot_free == 0;
        if (is_last_step(step) || any_improvable == 0 || all_full) state[p.batch] = 1;
        state[p.batch + 1] = int(step + 1);
    }
#endif
}
