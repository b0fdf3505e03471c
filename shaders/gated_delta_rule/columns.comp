#version 460
// SPDX-License-Identifier: MIT
// Token by token, for the matrix S = state[slot, h] of each head (Yang, Kautz and Hatamizadeh 2024, eq. 10):
//   S ← α S,  S ← S + β k̂ (v − Sᵀ k̂)ᵀ,  y = Sᵀ q̂ / √KEY_DIM
// with q̂ = q / √(Σ q² + 1e-6), k̂ likewise, β = sigmoid(gates[h]), α = exp(−exp(decay[0, h]) · softplus(gates[heads + h] + decay[1, h])). With the S
// from before the token, that is y = α Sᵀ q̂ + (k̂ · q̂) δ for δ = β (v − α Sᵀ k̂), so that each token takes one walk over the state.
// y: [batch, len, heads, value_dim], storage as lib/storage.glsl says. All else is float32, qkv: [batch, len, queries | keys | values], gates:
// [batch, len, 2 · heads], decay: [2, heads], state: [slots, heads, KEY_DIM, value_dim]; lib/state_place.glsl has the rest.
// LANES invocations own a column of the state, for all tokens: each has every LANES-th of its elements in registers. Queries and keys of some
// tokens lie in shared memory.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "gated_delta_rule/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kGatedDeltaRuleKeyDim) const uint KEY_DIM = 128;
layout(constant_id = kGatedDeltaRuleLanes) const uint LANES = 4;
layout(constant_id = kGatedDeltaRuleTokens) const uint TOKENS = 8;
layout(constant_id = kGatedDeltaRulePlace) const uint PLACE = 0;
layout(constant_id = kGatedDeltaRuleInTurns) const uint IN_TURNS = 0;
layout(push_constant) uniform Push { PART_OF_GRID GatedDeltaRulePush p; };
layout(std430, binding = kGatedDeltaRuleQkv) readonly buffer Qkv { float qkv[]; };
layout(std430, binding = kGatedDeltaRuleGates) readonly buffer Gates { float gates[]; };
layout(std430, binding = kGatedDeltaRuleDecay) readonly buffer Decay { float decay[]; };
layout(std430, binding = kGatedDeltaRuleStarts) readonly buffer Starts { int starts[]; };
layout(std430, binding = kGatedDeltaRuleCounts) readonly buffer Counts { int counts[]; };
layout(std430, binding = kGatedDeltaRuleSlots) readonly buffer Slots { int slots[]; };
layout(std430, binding = kGatedDeltaRuleState) buffer State { float state[]; };
layout(std430, binding = kGatedDeltaRuleY) STORED buffer Y { ELEMENT y[]; };
#include "lib/activation.glsl"
#include "lib/softplus.glsl"
#include "lib/state_place.glsl"

const uint KEPT = KEY_DIM / LANES;                // elements of a column that an invocation has
const uint COLUMNS = gl_WorkGroupSize.x / LANES;  // of a workgroup
const float SMALLEST = 1e-6;        // added to the sums of squares

shared float queries[TOKENS * KEY_DIM], keys[TOKENS * KEY_DIM];
shared vec3 parts[gl_WorkGroupSize.x];   // of a token's q · q, k · k and q · k
shared vec4 factors[TOKENS];             // 1 / |k|, 1 / (|q| √KEY_DIM), α, β
shared float products[TOKENS];           // k̂ · q̂ / √KEY_DIM
shared vec2 sums[2 * gl_WorkGroupSize.x];  // what the lanes of a column add up, of two tokens by turns

// Queries and keys of the tokens from `first` on, zeros behind the last, and what follows from them and from the gates.
void load_tokens(uint sequence, uint head, uint first, uint count) {
    const uint lane = gl_LocalInvocationIndex, width = 2 * p.key_heads * KEY_DIM + p.heads * p.value_dim;
    const uint query = (IN_TURNS == 1 ? head % p.key_heads : head / (p.heads / p.key_heads)) * KEY_DIM;
    barrier();  // those before may still be read
    for (uint i = lane; i < TOKENS * KEY_DIM; i += gl_WorkGroupSize.x) {
        const uint token = first + i / KEY_DIM;
        const uint at = (sequence * p.len + min(token, p.len - 1)) * width + query + i % KEY_DIM;
        const float q = qkv[at], k = qkv[at + p.key_heads * KEY_DIM];
        queries[i] = token < count ? q : 0.0;
        keys[i] = token < count ? k : 0.0;
    }
    barrier();
    const uint per_token = gl_WorkGroupSize.x / TOKENS, own = lane / per_token;
    vec3 part = vec3(0.0);
    for (uint i = lane % per_token; i < KEY_DIM; i += per_token) {
        const float q = queries[own * KEY_DIM + i], k = keys[own * KEY_DIM + i];
        part += vec3(q * q, k * k, q * k);
    }
    parts[lane] = part;
    barrier();
    if (lane < TOKENS && first + lane < count) {
        vec3 total = vec3(0.0);
        for (uint i = 0; i < per_token; ++i) total += parts[lane * per_token + i];
        const float of_key = inversesqrt(total.y + SMALLEST), of_query = inversesqrt((total.x + SMALLEST) * float(KEY_DIM));
        const uint gate = (sequence * p.len + first + lane) * 2 * p.heads + head;
        const float alpha = exp(-exp(decay[head]) * softplus(gates[gate + p.heads] + decay[p.heads + head]));
        factors[lane] = vec4(of_key, of_query, alpha, sigmoid(gates[gate]));
        products[lane] = total.z * of_key * of_query;
    }
    barrier();
}

// Of all lanes of a column. `turn` alternates: the sums before may still be read.
vec2 column_sums(vec2 part, uint turn) {
    if (LANES == 1) return part;
    const uint lane = gl_LocalInvocationIndex, base = (turn & 1u) * gl_WorkGroupSize.x;
    sums[base + lane] = part;
    barrier();
    vec2 total = vec2(0.0);
    [[unroll]] for (uint i = 0; i < LANES; ++i) total += sums[base + i * COLUMNS + lane % COLUMNS];
    return total;
}

void main() {
    const uint workgroup = linear_workgroup();
    if (workgroup >= p.workgroups) return;  // the whole workgroup leaves
    const uint head = workgroup / p.groups % p.heads, sequence = workgroup / p.groups / p.heads;
    // Neighbours have neighbouring columns, whose elements lie side by side.
    const uint lane = gl_LocalInvocationIndex / COLUMNS;
    const uint column = workgroup % p.groups * COLUMNS + gl_LocalInvocationIndex % COLUMNS;
    const bool is_inside = column < p.value_dim;
    const uint count = count_of(sequence), before = slot_before(sequence), slot = slot_behind(sequence);
    const uint width = 2 * p.key_heads * KEY_DIM + p.heads * p.value_dim;
    const uint value = 2 * p.key_heads * KEY_DIM + head * p.value_dim + column;  // in a row of qkv
    const uint place = lane * p.value_dim + column, step = LANES * p.value_dim;  // in the matrix of a head
    const uint matrix = KEY_DIM * p.value_dim;

    float s[KEPT];
    for (uint n = 0; n < KEPT; ++n) s[n] = 0.0;
    if (is_inside && before != NO_SLOT)
        for (uint n = 0; n < KEPT; ++n) s[n] = state[(before * p.heads + head) * matrix + place + n * step];
    for (uint first = 0; first < count; first += TOKENS) {
        load_tokens(sequence, head, first, count);
        for (uint t = 0; t < min(TOKENS, count - first); ++t) {
            vec2 part = vec2(0.0);  // of Sᵀ k and Sᵀ q
            for (uint n = 0; n < KEPT; ++n) {
                const uint i = t * KEY_DIM + n * LANES + lane;
                part += s[n] * vec2(keys[i], queries[i]);
            }
            const vec2 sum = column_sums(part, t);
            const vec4 f = factors[t];
            const uint row = sequence * p.len + first + t;
            const float v = is_inside ? qkv[row * width + value] : 0.0;
            const float delta = f.w * (v - f.z * f.x * sum.x);
            for (uint n = 0; n < KEPT; ++n) s[n] = f.z * s[n] + f.x * delta * keys[t * KEY_DIM + n * LANES + lane];
            if (is_inside && lane == 0)
                STORE(y, (row * p.heads + head) * p.value_dim + column, f.z * f.y * sum.y + products[t] * delta);
        }
    }
    if (!is_inside) return;
    if (lane == 0) {
        for (uint t = count; t < p.len; ++t)
            STORE(y, ((sequence * p.len + t) * p.heads + head) * p.value_dim + column, 0.0);
    }
    if (count == 0 || slot == NO_SLOT) return;
    for (uint n = 0; n < KEPT; ++n) state[(slot * p.heads + head) * matrix + place + n * step] = s[n];
}
