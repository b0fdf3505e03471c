#version 460
// SPDX-License-Identifier: MIT
// One step of an LSTM or a GRU (lib/recurrent_unit.glsl): next_hidden[row, k] and next_cell[row, k] from hidden[row, k], cell[row, k],
// input_gates and hidden_gates[row, gate · hidden_dim + k]. input_gates, hidden_gates: [rows, gates · hidden_dim], hidden,
// next_hidden: [rows, hidden_dim], storage as lib/storage.glsl says; cell, next_cell: [rows, hidden_dim] float32, LSTM only.
// An invocation owns one element of the states, so that the next ones may lie where the old ones are.
#extension GL_GOOGLE_include_directive : require
#include "recurrent_cell/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kRecurrentCellUnit) const uint UNIT = kRecurrentUnitLstm;
layout(push_constant) uniform Push { PART_OF_GRID RecurrentCellPush p; };
layout(std430, binding = kRecurrentCellInputGates) readonly buffer InputGates { ELEMENT input_gates[]; };
layout(std430, binding = kRecurrentCellHiddenGates) readonly buffer HiddenGates { ELEMENT hidden_gates[]; };
layout(std430, binding = kRecurrentCellHidden) readonly buffer Hidden { ELEMENT hidden[]; };
layout(std430, binding = kRecurrentCellCell) readonly buffer Cell { float cell[]; };
layout(std430, binding = kRecurrentCellNextHidden) STORED buffer NextHidden { ELEMENT next_hidden[]; };
layout(std430, binding = kRecurrentCellNextCell) writeonly buffer NextCell { float next_cell[]; };
#include "lib/recurrent_unit.glsl"

const uint GATES = UNIT == kRecurrentUnitLstm ? 4 : 3;

void main() {
    const uint i = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (i >= p.count) return;
    const uint row = i / p.hidden_dim;
    const uint base = row * GATES * p.hidden_dim + (i - row * p.hidden_dim);
    vec4 x = vec4(0.0), h = vec4(0.0);
    for (uint gate = 0; gate < GATES; ++gate) {
        x[gate] = LOAD(input_gates, base + gate * p.hidden_dim);
        h[gate] = LOAD(hidden_gates, base + gate * p.hidden_dim);
    }
    if (UNIT == kRecurrentUnitLstm) {
        float c = cell[i];
        const float updated = lstm_unit(x, h, c);
        next_cell[i] = c;
        STORE(next_hidden, i, updated);
    } else {
        const float updated = gru_unit(x, h, LOAD(hidden, i));
        STORE(next_hidden, i, updated);
    }
}
