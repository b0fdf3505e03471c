#version 460
// SPDX-License-Identifier: MIT
// y[b, t, c] = f(bias[c] + Σ_j weight[c, j] · u[b, t − TAPS + 1 + j, c]), j = 0 … TAPS − 1. u[b, t] is x[b, t] or, where it is gated, x is
// [before | behind | channels]: u = before · channels, and y is multiplied by `behind`. For t < 0 it is state[slot, TAPS − 1 + t], which
// KEEPS leaves as the last inputs of the sequence. x: [batch, len, width or 3 · width], weight: [width, TAPS], bias: [width], y: [batch, len,
// width], storage as lib/storage.glsl says; state: float32 [slots, TAPS − 1, width]; lib/state_place.glsl has the rest.
// An invocation owns a channel of TOKENS tokens. The state is written when no other invocation reads it: by who has all tokens, or in a
// dispatch of its own.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "short_convolution/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kShortConvolutionTaps) const uint TAPS = 3;
layout(constant_id = kShortConvolutionHasBias) const uint HAS_BIAS = 0;
layout(constant_id = kShortConvolutionIsGated) const uint IS_GATED = 0;
layout(constant_id = kShortConvolutionActivation) const uint ACTIVATION = kActivationNone;
layout(constant_id = kShortConvolutionPlace) const uint PLACE = 0;
layout(constant_id = kShortConvolutionTokens) const uint TOKENS = 4;
layout(constant_id = kShortConvolutionKeeps) const uint KEEPS = 0;
layout(push_constant) uniform Push { PART_OF_GRID ShortConvolutionPush p; };
layout(std430, binding = kShortConvolutionX) readonly buffer X { ELEMENT x[]; };
layout(std430, binding = kShortConvolutionWeight) readonly buffer Weight { ELEMENT weight[]; };
layout(std430, binding = kShortConvolutionBias) readonly buffer Bias { ELEMENT bias[]; };
layout(std430, binding = kShortConvolutionStarts) readonly buffer Starts { int starts[]; };
layout(std430, binding = kShortConvolutionCounts) readonly buffer Counts { int counts[]; };
layout(std430, binding = kShortConvolutionSlots) readonly buffer Slots { int slots[]; };
layout(std430, binding = kShortConvolutionState) buffer State { float state[]; };
layout(std430, binding = kShortConvolutionY) STORED buffer Y { ELEMENT y[]; };
#include "lib/activation.glsl"
#include "lib/state_place.glsl"

const uint PARTS = IS_GATED == 1 ? 3 : 1;
const uint COMPUTED = TOKENS == 0 ? 1 : TOKENS;  // arrays have elements where nothing is computed, too

// u[sequence, token, channel] of a token that there is.
float input_of(uint sequence, uint token, uint channel) {
    const uint at = (sequence * p.len + token) * PARTS * p.width + channel;
    if (IS_GATED == 0) return LOAD(x, at);
    return LOAD(x, at) * LOAD(x, at + 2 * p.width);
}

// The j-th of the inputs before the run; `before` is the row of the state that has them.
float kept_input(uint before, uint j, uint channel) {
    return before == NO_SLOT ? 0.0 : state[(before * (TAPS - 1) + j) * p.width + channel];
}

// All is loaded before anything is computed of it, from places that there are: what is not to be stored is computed of other tokens.
void convolve(uint sequence, uint first, uint channel, uint before) {
    float taps[TAPS], inputs[TAPS - 1 + COMPUTED], gates[COMPUTED];
    [[unroll]] for (uint j = 0; j < TAPS - 1 + COMPUTED; ++j) {
        const int token = int(first + j) - int(TAPS - 1);
        inputs[j] = input_of(sequence, uint(clamp(token, 0, int(p.len) - 1)), channel);
    }
    [[unroll]] for (uint i = 0; i < COMPUTED; ++i) {
        const uint row = sequence * p.len + min(first + i, p.len - 1);
        gates[i] = IS_GATED == 1 ? LOAD(x, (row * PARTS + 1) * p.width + channel) : 1.0;
    }
    [[unroll]] for (uint j = 0; j < TAPS; ++j) taps[j] = LOAD(weight, channel * TAPS + j);
    const float constant = HAS_BIAS == 1 ? LOAD(bias, channel) : 0.0;
    if (first < TAPS - 1)
        [[unroll]] for (uint j = 0; j < TAPS - 1; ++j)
            if (first + j < TAPS - 1) inputs[j] = kept_input(before, first + j, channel);

    [[unroll]] for (uint i = 0; i < COMPUTED; ++i) {
        if (first + i >= p.len) return;
        float sum = constant;
        [[unroll]] for (uint j = 0; j < TAPS; ++j) sum += taps[j] * inputs[i + j];
        STORE(y, (sequence * p.len + first + i) * p.width + channel, activated(ACTIVATION, sum) * gates[i]);
    }
}

// From the oldest on, each from a place behind its own.
void keep(uint sequence, uint channel, uint before) {
    const uint count = count_of(sequence), slot = slot_behind(sequence);
    if (count == 0 || slot == NO_SLOT) return;
    for (uint j = 0; j < TAPS - 1; ++j) {
        const bool is_old = count + j < TAPS - 1;
        state[(slot * (TAPS - 1) + j) * p.width + channel] =
            is_old ? kept_input(before, count + j, channel) : input_of(sequence, count + j - (TAPS - 1), channel);
    }
}

void main() {
    const uint i = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (i >= p.count) return;
    const uint channel = i % p.width, tile = i / p.width % p.tiles, sequence = i / p.width / p.tiles;
    const uint before = slot_before(sequence);
    if (TOKENS > 0) convolve(sequence, tile * TOKENS, channel, before);
    if (KEEPS == 1) keep(sequence, channel, before);
}
