#version 460
// SPDX-License-Identifier: MIT
// token = finished[row] ? pad : next[row];  tokens[row] = history[starts[row], row] = token;  finished[row] = 1 if the token is
// eos;  starts[row] += 1. next, tokens, starts, finished: i32 [rows]; history: i32 [capacity, rows], to which a step outside it
// is not written.
// One invocation per row.
#extension GL_GOOGLE_include_directive : require
#include "interface/greedy_step.h"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { GreedyStepPush p; };
layout(std430, binding = kGreedyStepNext) readonly buffer Next { int next[]; };
layout(std430, binding = kGreedyStepTokens) writeonly buffer Tokens { int tokens[]; };
layout(std430, binding = kGreedyStepStarts) buffer Starts { uint starts[]; };
layout(std430, binding = kGreedyStepFinished) buffer Finished { int finished[]; };
layout(std430, binding = kGreedyStepHistory) writeonly buffer History { int history[]; };
#include "lib/grid.glsl"

void main() {
    const uint row = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (row >= p.rows) return;
    const int token = finished[row] != 0 ? p.pad : next[row];
    const uint step = starts[row];  // a negative one is huge
    if (token == p.eos) finished[row] = 1;
    if (step < p.capacity) history[step * p.rows + row] = token;
    tokens[row] = token;
    starts[row] = step + 1;
}
