// SPDX-License-Identifier: MIT
// f(gate) · up or, with a limit, f(min(gate, limit)) · (clamp(up, −limit, limit) + shift). NaN stays NaN. The shader declares before:
// ACTIVATION, the specialization constant, and the push constants `p`.
#include "lib/activation.glsl"

float gated(float gate, float up) {
    if (p.limit > 0.0) {
        gate = gate > p.limit ? p.limit : gate;
        up = (up > p.limit ? p.limit : up < -p.limit ? -p.limit : up) + p.up_shift;
    }
    return activated(ACTIVATION, gate) * up;
}
