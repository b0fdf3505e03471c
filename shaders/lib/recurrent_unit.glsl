// SPDX-License-Identifier: MIT
// One hidden unit, σ = sigmoid:
//   LSTM: c' = σ(f) · c + σ(i) · tanh(g),  h' = σ(o) · tanh(c')         Hochreiter and Schmidhuber 1997, Gers et al. 2000
//   GRU:  n = tanh(n_x + σ(r) · n_h),  h' = (1 − σ(z)) · n + σ(z) · h   Cho et al. 2014, the reset gate after the product
// x: what the input gives to the gates i, f, g, o or r, z, n; h: what the state gives.
#ifndef VKFORMER_RECURRENT_UNIT_GLSL
#define VKFORMER_RECURRENT_UNIT_GLSL
#include "lib/recurrent_unit.h"
#include "lib/activation.glsl"

float lstm_unit(vec4 x, vec4 h, inout float cell) {
    const vec4 gate = x + h;
    cell = sigmoid(gate.y) * cell + sigmoid(gate.x) * hyperbolic_tangent(gate.z);
    return sigmoid(gate.w) * hyperbolic_tangent(cell);
}

float gru_unit(vec4 x, vec4 h, float hidden) {
    const float update = sigmoid(x.y + h.y);
    const float candidate = hyperbolic_tangent(x.z + sigmoid(x.x + h.x) * h.z);
    return (1.0 - update) * candidate + update * hidden;
}
#endif
