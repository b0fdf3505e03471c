#version 460
// SPDX-License-Identifier: MIT
// A layer of LSTM or GRU units (lib/recurrent_unit.glsl) over whole sequences: for t = 0 … length − 1, or length − 1 … 0,
//   h_t = unit(gates[b, t], W · h_{t−1} + bias),  y[b, t] = h_t;  y[b, t] = 0 for t ≥ length.
// gates: [batch, len, directions, GATES, HIDDEN_DIM], what the input gives; weight: [directions, HIDDEN_DIM (of h), GATES,
// HIDDEN_DIM (of the result)], that is W transposed; bias: [directions, GATES, HIDDEN_DIM]; initial_hidden, hidden: [batch,
// directions, HIDDEN_DIM]; y: [batch, len, directions, HIDDEN_DIM], storage as lib/storage.glsl says; initial_cell, cell: as hidden,
// float32; lengths: i32 [batch]. The states stay float32 from step to step. Not every device allows a shader more than 8 storage
// buffers: lengths and initial_cell, whichever are there, lie behind one another in `words`.
// A workgroup owns one direction of ROWS sequences and does all of their steps: nobody else needs their states, so a step
// costs one barrier and no dispatch. An invocation owns the hidden units k ≡ its index modulo the workgroup's size;
// neighbours read neighbouring elements of a row of the weight, and each of them serves all ROWS sequences.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "recurrent_layer/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kRecurrentLayerUnit) const uint UNIT = kRecurrentUnitLstm;
layout(constant_id = kRecurrentLayerHiddenDim) const uint HIDDEN_DIM = 1;
layout(constant_id = kRecurrentLayerRows) const uint ROWS = 1;
layout(constant_id = kRecurrentLayerOperands) const uint OPERANDS = 0;
layout(push_constant) uniform Push { PART_OF_GRID RecurrentLayerPush p; };
layout(std430, binding = kRecurrentLayerGates) readonly buffer Gates { ELEMENT gates[]; };
layout(std430, binding = kRecurrentLayerWeight) readonly buffer Weight { ELEMENT weight[]; };
layout(std430, binding = kRecurrentLayerBias) readonly buffer Bias { ELEMENT bias[]; };
layout(std430, binding = kRecurrentLayerInitialHidden) readonly buffer InitialHidden { ELEMENT initial_hidden[]; };
layout(std430, binding = kRecurrentLayerWords) readonly buffer Words { int words[]; };
layout(std430, binding = kRecurrentLayerY) STORED buffer Y { ELEMENT y[]; };
layout(std430, binding = kRecurrentLayerHidden) STORED buffer Hidden { ELEMENT hidden[]; };
layout(std430, binding = kRecurrentLayerCell) writeonly buffer Cell { float cell[]; };
#include "lib/recurrent_unit.glsl"

const uint GATES = UNIT == kRecurrentUnitLstm ? 4 : 3;
const uint GATES_WIDTH = GATES * HIDDEN_DIM;
const uint MAX_ROWS = kRecurrentLayerMaxRows;
// Two copies of h, so that a step reads one while it writes the other, and c: at most 16 KiB.
shared float hidden_state[2 * ROWS * HIDDEN_DIM];
shared float cell_state[ROWS * HIDDEN_DIM];

// Of a row beyond the batch: 0.
int length_of(uint row) {
    if (row >= p.batch) return 0;
    return (OPERANDS & kRecurrentLayerHasLengths) != 0 ? clamp(words[row], 0, int(p.len)) : int(p.len);
}

float initial_cell(uint at) {
    return intBitsToFloat(words[at + ((OPERANDS & kRecurrentLayerHasLengths) != 0 ? p.batch : 0)]);
}

void main() {
    const uint tile = linear_workgroup() / p.directions;
    const uint direction = linear_workgroup() % p.directions;
    const uint first_row = tile * ROWS;
    if (first_row >= p.batch) return;  // the whole workgroup leaves
    const bool backward = ((p.backward >> direction) & 1u) != 0;

    int length[MAX_ROWS];
    int longest = 0;       // the same for all invocations
    [[unroll]] for (uint r = 0; r < MAX_ROWS; ++r) {
        if (r >= ROWS) continue;  // decided when the pipeline is made
        length[r] = length_of(first_row + r);
        longest = max(longest, length[r]);
    }

    for (uint k = gl_LocalInvocationIndex; k < HIDDEN_DIM; k += gl_WorkGroupSize.x) {
        [[unroll]] for (uint r = 0; r < MAX_ROWS; ++r) {
            if (r >= ROWS) continue;
            const bool exists = first_row + r < p.batch;
            const uint at = ((first_row + r) * p.directions + direction) * HIDDEN_DIM + k;
            float h = 0.0, c = 0.0;
            if ((OPERANDS & kRecurrentLayerHasHidden) != 0 && exists) h = LOAD(initial_hidden, at);
            if ((OPERANDS & kRecurrentLayerHasCell) != 0 && exists) c = initial_cell(at);
            hidden_state[r * HIDDEN_DIM + k] = h;
            cell_state[r * HIDDEN_DIM + k] = c;
        }
    }

    uint now = 0;  // which copy of h is current
    for (int s = 0; s < longest; ++s) {
        barrier();  // h is written; the other copy has been read
        const uint from = now * ROWS * HIDDEN_DIM;
        const uint to = (1 - now) * ROWS * HIDDEN_DIM;
        for (uint k = gl_LocalInvocationIndex; k < HIDDEN_DIM; k += gl_WorkGroupSize.x) {
            vec4 sums[MAX_ROWS];
            vec4 start = vec4(0.0);
            if ((OPERANDS & kRecurrentLayerHasBias) != 0)
                for (uint gate = 0; gate < GATES; ++gate)
                    start[gate] = LOAD(bias, direction * GATES_WIDTH + gate * HIDDEN_DIM + k);
            [[unroll]] for (uint r = 0; r < MAX_ROWS; ++r) sums[r] = start;
            uint w = direction * HIDDEN_DIM * GATES_WIDTH + k;
            for (uint j = 0; j < HIDDEN_DIM; ++j, w += GATES_WIDTH) {
                vec4 column;
                column.x = LOAD(weight, w);
                column.y = LOAD(weight, w + HIDDEN_DIM);
                column.z = LOAD(weight, w + 2 * HIDDEN_DIM);
                column.w = 0.0;
                if (GATES == 4) column.w = LOAD(weight, w + 3 * HIDDEN_DIM);
                [[unroll]] for (uint r = 0; r < MAX_ROWS; ++r)
                    if (r < ROWS) sums[r] += hidden_state[from + r * HIDDEN_DIM + j] * column;
            }
            [[unroll]] for (uint r = 0; r < MAX_ROWS; ++r) {
                if (r >= ROWS) continue;
                float h = hidden_state[from + r * HIDDEN_DIM + k];
                if (s < length[r]) {
                    const uint t = uint(backward ? length[r] - 1 - s : s);
                    const uint at = ((first_row + r) * p.len + t) * p.directions + direction;
                    vec4 x = vec4(0.0);
                    for (uint gate = 0; gate < GATES; ++gate)
                        x[gate] = LOAD(gates, at * GATES_WIDTH + gate * HIDDEN_DIM + k);
                    if (UNIT == kRecurrentUnitLstm) {
                        float c = cell_state[r * HIDDEN_DIM + k];
                        h = lstm_unit(x, sums[r], c);
                        cell_state[r * HIDDEN_DIM + k] = c;
                    } else {
                        h = gru_unit(x, sums[r], h);
                    }
                    STORE(y, at * HIDDEN_DIM + k, h);
                }
                hidden_state[to + r * HIDDEN_DIM + k] = h;
            }
        }
        now = 1 - now;
    }

    // An invocation reads only what it wrote itself.
    for (uint k = gl_LocalInvocationIndex; k < HIDDEN_DIM; k += gl_WorkGroupSize.x) {
        [[unroll]] for (uint r = 0; r < MAX_ROWS; ++r) {
            if (r >= ROWS || first_row + r >= p.batch) continue;
            const uint at = ((first_row + r) * p.directions + direction) * HIDDEN_DIM + k;
            STORE(hidden, at, hidden_state[(now * ROWS + r) * HIDDEN_DIM + k]);
            if (UNIT == kRecurrentUnitLstm) cell[at] = cell_state[r * HIDDEN_DIM + k];
            // Not length[r]: around this loop, that over r stays one, and the array would lie in memory.
            for (uint t = uint(length_of(first_row + r)); t < p.len; ++t)
                STORE(y, (((first_row + r) * p.len + t) * p.directions + direction) * HIDDEN_DIM + k, 0.0);
        }
    }
}
