#version 460
// SPDX-License-Identifier: MIT
// token = finished[row] ? pad : next[row];  tokens[row] = history[starts[row], row] = token;  finished[row] = 1 if the token is
// eos;  scores[starts[row], row] = finished before ? 0 : log_probs[row, token];  starts[row] += 1.
// But where g = given[row, starts[row] + 1] ≥ 0: token = g, which finishes nothing, and the score is 0.
// next, tokens, starts, finished: i32 [rows]; given: i32 [rows, positions]; log_probs: f32 [rows, vocab]; history: i32 and scores:
// f32 [capacity, rows], to which a step outside them is not written.
// One invocation per row.
#extension GL_GOOGLE_include_directive : require
#include "greedy_step/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID GreedyStepPush p; };
layout(std430, binding = kGreedyStepNext) readonly buffer Next { int next[]; };
layout(std430, binding = kGreedyStepGiven) readonly buffer Given { int given[]; };
layout(std430, binding = kGreedyStepLogProbs) readonly buffer LogProbs { float log_probs[]; };
layout(std430, binding = kGreedyStepTokens) writeonly buffer Tokens { int tokens[]; };
layout(std430, binding = kGreedyStepStarts) buffer Starts { uint starts[]; };
layout(std430, binding = kGreedyStepFinished) buffer Finished { int finished[]; };
layout(std430, binding = kGreedyStepHistory) writeonly buffer History { int history[]; };
layout(std430, binding = kGreedyStepScores) writeonly buffer Scores { float scores[]; };

void main() {
    const uint row = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (row >= p.rows) return;
    const uint step = starts[row];  // a negative one is huge
    const bool was_finished = finished[row] != 0;
    int token = was_finished ? p.pad : next[row];
    bool is_given = false;
    if (step + 1 < p.positions && given[row * p.positions + step + 1] >= 0) {
        token = given[row * p.positions + step + 1];
        is_given = true;
    }
    if (p.eos >= 0 && token == p.eos && !is_given) finished[row] = 1;  // −1 is what was not chosen
    if (step < p.capacity) history[step * p.rows + row] = token;
    if (step < p.capacity && p.vocab > 0)
        scores[step * p.rows + row] =
            is_given || was_finished || uint(token) >= p.vocab ? 0.0 : log_probs[row * p.vocab + uint(token)];
    tokens[row] = token;
    starts[row] = step + 1;
}
