#version 460
// SPDX-License-Identifier: MIT
// Token by token, for the matrix S = state[slot, h] of each head (Dao and Gu 2024, section 6; Mamba-2):
//   S ← exp(−exp(rates[0, h]) Δ) S + Δ B xᵀ,  y = Sᵀ C + rates[2, h] x
//   Δ = clamp(softplus(steps[h] + rates[1, h]), least_step, most_step)
// y: [batch, len, heads, head_dim], storage as lib/storage.glsl says. All else is float32, xbc: [batch, len, x of all heads | B of all
// groups | C of all groups], steps: [batch, len, heads], rates: [3, heads], state: [slots, heads, STATE_DIM, head_dim];
// lib/state_place.glsl has the rest.
// LANES invocations own a column of the state, for all tokens: each has every LANES-th of its elements in registers. What TOKENS tokens
// bring lies in shared memory, those behind them are loaded meanwhile. So do their sums of each invocation: nobody waits between those
// tokens, for what a column becomes needs no sum. Neighbours have neighbouring columns, whose elements lie side by side.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "selective_scan/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kSelectiveScanStateDim) const uint STATE_DIM = 128;
layout(constant_id = kSelectiveScanLanes) const uint LANES = 8;
layout(constant_id = kSelectiveScanTokens) const uint TOKENS = 8;
layout(constant_id = kSelectiveScanPlace) const uint PLACE = 0;
layout(push_constant) uniform Push { PART_OF_GRID SelectiveScanPush p; };
layout(std430, binding = kSelectiveScanXbc) readonly buffer Xbc { float xbc[]; };
layout(std430, binding = kSelectiveScanSteps) readonly buffer Steps { float steps[]; };
layout(std430, binding = kSelectiveScanRates) readonly buffer Rates { float rates[]; };
layout(std430, binding = kSelectiveScanStarts) readonly buffer Starts { int starts[]; };
layout(std430, binding = kSelectiveScanCounts) readonly buffer Counts { int counts[]; };
layout(std430, binding = kSelectiveScanSlots) readonly buffer Slots { int slots[]; };
layout(std430, binding = kSelectiveScanState) buffer State { float state[]; };
layout(std430, binding = kSelectiveScanY) STORED buffer Y { ELEMENT y[]; };
#include "lib/softplus.glsl"
#include "lib/state_place.glsl"

const uint KEPT = STATE_DIM / LANES;              // elements of a column that an invocation has
const uint COLUMNS = gl_WorkGroupSize.x / LANES;  // of a workgroup
const uint TILE = TOKENS * STATE_DIM;             // elements of B, and of C, that lie in shared memory
const uint LOADS = (TILE + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const uint INPUTS = (TOKENS + LANES - 1) / LANES;
// Of a token; an invocation with a column of its own needs none. The sums of one column lie in different banks.
const uint SUMS = LANES == 1 ? 1 : gl_WorkGroupSize.x + COLUMNS;

shared vec2 bc[TILE];                   // B and C
shared float inputs[TOKENS * COLUMNS];  // x
shared vec2 factors[TOKENS];            // what is left of the state, and Δ
shared float sums[TOKENS * SUMS];

// The same of the tokens to come, but the step before it is Δ.
vec2 ahead_bc[LOADS];
float ahead_inputs[INPUTS], ahead_step;

// What tokens first … first + TOKENS − 1 bring for the columns from `column` on; any numbers behind the last.
void load_ahead(uint sequence, uint head, uint column, uint first) {
    const uint invocation = gl_LocalInvocationIndex, x_width = p.heads * p.head_dim, width = x_width + 2 * p.groups * STATE_DIM;
    const uint group = x_width + head / (p.heads / p.groups) * STATE_DIM;
    [[unroll]] for (uint k = 0; k < LOADS; ++k) {
        const uint i = k * gl_WorkGroupSize.x + invocation, token = min(first + i / STATE_DIM, p.len - 1);
        const uint at = (sequence * p.len + token) * width + group + i % STATE_DIM;
        ahead_bc[k] = vec2(xbc[at], xbc[at + p.groups * STATE_DIM]);
    }
    [[unroll]] for (uint k = 0; k < INPUTS; ++k) {
        const uint i = k * gl_WorkGroupSize.x + invocation, token = min(first + i / COLUMNS, p.len - 1);
        const uint own = min(column + i % COLUMNS, p.head_dim - 1);
        ahead_inputs[k] = xbc[(sequence * p.len + token) * width + head * p.head_dim + own];
    }
    ahead_step = steps[(sequence * p.len + min(first + invocation, p.len - 1)) * p.heads + head];
}

// Requires that nobody reads what was stored before.
void store_loaded(uint head) {
    const uint invocation = gl_LocalInvocationIndex;
    [[unroll]] for (uint k = 0; k < LOADS; ++k) {
        const uint i = k * gl_WorkGroupSize.x + invocation;
        if (i < TILE) bc[i] = ahead_bc[k];
    }
    [[unroll]] for (uint k = 0; k < INPUTS; ++k) {
        const uint i = k * gl_WorkGroupSize.x + invocation;
        if (i < TOKENS * COLUMNS) inputs[i] = ahead_inputs[k];
    }
    if (invocation < TOKENS) {
        const float step = softplus(ahead_step + rates[p.heads + head]);
        const float delta = isnan(step) ? step : min(max(step, p.least_step), p.most_step);
        factors[invocation] = vec2(exp(-exp(rates[head]) * delta), delta);
    }
    barrier();
}

void main() {
    const uint workgroup = linear_workgroup();
    if (workgroup >= p.workgroups) return;  // the whole workgroup leaves
    const uint head = workgroup / p.parts % p.heads, sequence = workgroup / p.parts / p.heads;
    const uint invocation = gl_LocalInvocationIndex, lane = invocation / COLUMNS, own = invocation % COLUMNS;
    const uint first_column = workgroup % p.parts * COLUMNS, column = first_column + own;
    const bool is_inside = column < p.head_dim;
    const uint count = count_of(sequence), before = slot_before(sequence), slot = slot_behind(sequence);
    const uint place = lane * p.head_dim + column, stride = LANES * p.head_dim;  // in the matrix of a head
    const uint matrix = STATE_DIM * p.head_dim;
    const float skip = rates[2 * p.heads + head];

    float s[KEPT];
    for (uint n = 0; n < KEPT; ++n) s[n] = 0.0;
    if (is_inside && before != NO_SLOT)
        for (uint n = 0; n < KEPT; ++n) s[n] = state[(before * p.heads + head) * matrix + place + n * stride];
    if (LANES > 1) load_ahead(sequence, head, first_column, 0);
    for (uint first = 0; first < count; first += TOKENS) {
        const uint tokens = min(TOKENS, count - first), row = sequence * p.len + first;
        if (LANES == 1) {  // it has no registers for what is ahead
            load_ahead(sequence, head, first_column, first);
            barrier();  // what was stored before is read no more, as behind the sums of the others
        }
        store_loaded(head);
        if (LANES > 1 && first + TOKENS < count) load_ahead(sequence, head, first_column, first + TOKENS);
        for (uint t = 0; t < tokens; ++t) {
            const vec2 f = factors[t];
            const float x = inputs[t * COLUMNS + own], added = f.y * x;
            float sum = lane == 0 ? skip * x : 0.0;
            for (uint n = 0; n < KEPT; ++n) {
                const vec2 both = bc[t * STATE_DIM + n * LANES + lane];
                s[n] = f.x * s[n] + added * both.x;
                sum += s[n] * both.y;
            }
            if (LANES > 1)
                sums[t * SUMS + invocation] = sum;
            else if (is_inside)
                STORE(y, ((row + t) * p.heads + head) * p.head_dim + column, sum);
        }
        if (LANES > 1) {
            barrier();
            for (uint i = invocation; i < tokens * COLUMNS; i += gl_WorkGroupSize.x) {
                const uint t = i / COLUMNS, c = i % COLUMNS;
                float sum = 0.0;
                [[unroll]] for (uint k = 0; k < LANES; ++k) sum += sums[t * SUMS + k * COLUMNS + c];
                if (first_column + c < p.head_dim)
                    STORE(y, ((row + t) * p.heads + head) * p.head_dim + first_column + c, sum);
            }
        }
    }
    if (!is_inside) return;
    if (lane == 0) {
        for (uint t = count; t < p.len; ++t)
            STORE(y, ((sequence * p.len + t) * p.heads + head) * p.head_dim + column, 0.0);
    }
    if (count == 0 || slot == NO_SLOT) return;
    for (uint n = 0; n < KEPT; ++n) state[(slot * p.heads + head) * matrix + place + n * stride] = s[n];
}
