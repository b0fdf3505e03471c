#version 460
// SPDX-License-Identifier: MIT
// y[b, t, c] = f(bias[c] + Σ_j weight[c, j] · u[b, t − TAPS + 1 + j, c]), j = 0 … TAPS − 1. u[b, t] is x[b, t] or, where it is gated, x is
// [before | behind | channels]: u = before · channels, and y is multiplied by `behind`. For t < 0 it is state[slot, TAPS − 1 + t], which
// KEEPS leaves as the last inputs of the sequence. x: [batch, len, width or 3 · width], weight: [width, TAPS], bias: [width], y: [batch, len,
// width], storage as lib/storage.glsl says; state: float32 [slots, TAPS − 1, width]; lib/state_place.glsl has the rest.
// An invocation owns a channel of TOKENS tokens. The state is written when no other invocation reads it: by who has all tokens, or in a
// dispatch of its own.
#extension GL_GOOGLE_include_directive : require
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

// u[sequence, token, channel]; `before` is the row of the state for the tokens before the first.
float input_at(uint sequence, int token, uint channel, uint before) {
    if (token < 0)
        return before == NO_SLOT ? 0.0 : state[(before * (TAPS - 1) + uint(token + int(TAPS) - 1)) * p.width + channel];
    const uint at = (sequence * p.len + uint(token)) * PARTS * p.width + channel;
    if (IS_GATED == 0) return LOAD(x, at);
    return LOAD(x, at) * LOAD(x, at + 2 * p.width);
}

void convolve(uint sequence, uint first, uint channel, uint before) {
    float taps[TAPS], window[TAPS];
    for (uint j = 0; j < TAPS; ++j) taps[j] = LOAD(weight, channel * TAPS + j);
    for (uint j = 1; j < TAPS; ++j) window[j] = input_at(sequence, int(first + j) - int(TAPS), channel, before);
    const float constant = HAS_BIAS == 1 ? LOAD(bias, channel) : 0.0;
    for (uint i = 0; i < TOKENS; ++i) {
        const uint token = first + i;
        if (token >= p.len) return;
        for (uint j = 1; j < TAPS; ++j) window[j - 1] = window[j];
        window[TAPS - 1] = input_at(sequence, int(token), channel, before);
        float sum = constant;
        for (uint j = 0; j < TAPS; ++j) sum += taps[j] * window[j];
        sum = activated(ACTIVATION, sum);
        const uint row = sequence * p.len + token;
        if (IS_GATED == 1) sum *= LOAD(x, (row * PARTS + 1) * p.width + channel);
        STORE(y, row * p.width + channel, sum);
    }
}

// From the oldest on, each from a place behind its own.
void keep(uint sequence, uint channel, uint before) {
    const uint count = count_of(sequence), slot = slot_of(sequence);
    if (count == 0 || slot == NO_SLOT) return;
    for (uint j = 0; j < TAPS - 1; ++j)
        state[(slot * (TAPS - 1) + j) * p.width + channel] =
            input_at(sequence, int(count + j) - int(TAPS - 1), channel, before);
}

void main() {
    const uint i = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (i >= p.count) return;
    const uint channel = i % p.width, tile = i / p.width % p.tiles, sequence = i / p.width / p.tiles;
    const uint before = slot_before(sequence);
    if (TOKENS > 0) convolve(sequence, tile * TOKENS, channel, before);
    if (KEEPS == 1) keep(sequence, channel, before);
}
