#version 460
// SPDX-License-Identifier: MIT
// y[row] = i with probability softmax(x[row] / temperature)[i] over the tokens that are kept; random[row].draws += 1.
// Kept is what has at least the top_k-th largest logit; of that, what has less than top_p of the probability before it, that is in
// tokens with larger logits; of that, what is at least min_p times as probable as the likeliest. Equal logits share their fate.
// x: f32 [rows, width], read as bits; random: [rows, 3]: seed (low, high), draws; y: i32 [rows]; settings: f32 [rows, 4], what the push
// block has of a row, as numbers: temperature, top_k, top_p, min_p.
// Temperature 0, a NaN (−1), or a row of −∞: what arg_max chooses.
//
// The draw is a race (Gumbel 1954; Efraimidis and Spirakis 2006): the token with the least E_i / w_i wins, E_i exponentially
// distributed, w_i its probability, so nothing has to be sorted, added up or normalised. E_i comes from the i-th word of Philox
// (lib/philox.glsl) with the counter (i / 4, draws): the choice depends on row contents, seed and draws alone.
// Keys (lib/order.glsl) are compared by their distance to the best one, least first. What top_k and top_p keep ends at a distance
// that is found digit by digit, 8 bits at a time: the weights of the elements whose leading digits are right, by their next digit,
// then the digit in which the target falls. A weight is 1 for top_k and w_i in units of 2^-30 for top_p; sums of integers are the same
// in any order, so they can be formed with atomics. 64 bits in two words: 2^31 elements of 2^30 fit.
// One workgroup per row. Shared memory: 256 sums of 8 bytes and a reduction, 4.1 KiB.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "sample/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kSampleHasSettings) const uint HAS_SETTINGS = 0;
layout(push_constant) uniform Push { PART_OF_GRID SamplePush p; };
layout(std430, binding = kSampleX) readonly buffer X { uint x[]; };
layout(std430, binding = kSampleRandom) buffer Random { uint random[]; };
layout(std430, binding = kSampleY) writeonly buffer Y { uint y[]; };
layout(std430, binding = kSampleSettings) readonly buffer SettingsOfRows { float settings[]; };
#include "lib/numbers.glsl"
#include "lib/philox.glsl"
#include "lib/reduce_candidate.glsl"

struct Settings {
    float inverse_temperature;
    uint top_k, top_p;  // as in the push block
    float lowest;
};
Settings s;  // of this workgroup's row

void read_settings(uint row) {
    s = Settings(p.inverse_temperature, p.top_k, p.top_p, p.lowest);
    if (HAS_SETTINGS == 0) return;
    const uint first = row * kSampleSettingsWords;
    const float temperature = settings[first], top_k = settings[first + 1], top_p = settings[first + 2];
    s.inverse_temperature = temperature == 0.0 ? 0.0 : 1.0 / temperature;
    s.top_k = top_k > 0.0 ? uint(min(top_k, 16777216.0)) : 0;
    s.top_p = top_p >= 1.0 ? 0 : uint(clamp(top_p * 4294967296.0, 1.0, 4294967040.0));  // the largest float below 2^32
    s.lowest = log(min(settings[first + 3], 1.0));
}

const uint DIGIT_BITS = 8, DIGITS = 256;
shared uint sum_low[DIGITS], sum_high[DIGITS];
shared uint found_digit;
shared uvec2 found_before;

uvec2 add64(uvec2 a, uvec2 b) {
    uint carry;
    const uint low = uaddCarry(a.x, b.x, carry);
    return uvec2(low, a.y + b.y + carry);
}

bool less64(uvec2 a, uvec2 b) { return a.y < b.y || (a.y == b.y && a.x < b.x); }

uvec2 subtract64(uvec2 a, uvec2 b) { return uvec2(a.x - b.x, a.y - b.y - (a.x < b.x ? 1u : 0u)); }

void add_to_sum(uint digit, uvec2 weight) {
    const uint before = atomicAdd(sum_low[digit], weight.x);
    const uint high = weight.y + (before > 0xFFFFFFFFu - weight.x ? 1u : 0u);
    if (high != 0) atomicAdd(sum_high[digit], high);
}

void clear_sums() {
    barrier();  // somebody may still read the old ones
    for (uint i = gl_LocalInvocationIndex; i < DIGITS; i += gl_WorkGroupSize.x) sum_low[i] = sum_high[i] = 0;
    barrier();
}

// log(w_i) for the best logit of the row. Equal ones, infinite ones too, have 0.
float log_weight(uint bits, float best) {
    const float logit = uintBitsToFloat(bits);
    return logit == best ? 0.0 : (logit - best) * s.inverse_temperature;
}

uint fixed_weight(uint bits, float best) { return uint(exp(log_weight(bits, best)) * 1073741824.0 + 0.5); }

// What all elements up to the distance `limit` weigh together.
uvec2 total_weight(uint base, Candidate first, float best, uint limit) {
    clear_sums();
    uvec2 total = uvec2(0);
    for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x) {
        const uint bits = x[base + i];
        if (first.key - order_key(bits) <= limit) total = add64(total, uvec2(fixed_weight(bits, best), 0));
    }
    add_to_sum(0, total);
    barrier();
    return uvec2(sum_low[0], sum_high[0]);
}

// The digit in which the sums, added up from the first on, reach the target; the sum before it.
void find_digit(uvec2 target) {
    uvec2 before = uvec2(0);
    uint digit = 0;
    for (; digit < DIGITS - 1; ++digit) {
        const uvec2 with = add64(before, uvec2(sum_low[digit], sum_high[digit]));
        if (!less64(with, target)) break;
        before = with;
    }
    found_digit = digit;
    found_before = before;
}

// The least distance up to which the elements weigh at least `target`; those up to `limit` weigh that much.
uint distance_of(uint base, Candidate first, float best, uint limit, uvec2 target, bool counted) {
    uint leading = 0;
    for (uint shift = 32; shift > 0;) {
        shift -= DIGIT_BITS;
        clear_sums();
        for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x) {
            const uint bits = x[base + i];
            const uint distance = first.key - order_key(bits);
            if (distance > limit || distance >> shift >> DIGIT_BITS != leading) continue;
            add_to_sum(distance >> shift & (DIGITS - 1), uvec2(counted ? 1u : fixed_weight(bits, best), 0));
        }
        barrier();
        if (gl_LocalInvocationIndex == 0) find_digit(target);
        barrier();
        leading = leading << DIGIT_BITS | found_digit;
        target = subtract64(target, found_before);
    }
    return leading;
}

// top_p of the total, rounded down, but not 0.
uvec2 share_of(uvec2 total) {
    uint carried, fraction, high, low;
    umulExtended(total.x, s.top_p, carried, fraction);
    umulExtended(total.y, s.top_p, high, low);
    const uvec2 share = add64(uvec2(low, high), uvec2(carried, 0));
    return share == uvec2(0) ? uvec2(1, 0) : share;
}

// The distance at which top_k and top_p end.
uint kept_distance(uint base, Candidate first, float best) {
    uint limit = 0xFFFFFFFFu;
    if (s.top_k != 0) limit = distance_of(base, first, best, limit, uvec2(min(s.top_k, p.width), 0), true);
    if (s.top_p != 0) limit = distance_of(base, first, best, limit, share_of(total_weight(base, first, best, limit)), false);
    return limit;
}

// This invocation's winner: of the elements whose index / 4 is ≡ its index modulo the workgroup's size.
Candidate race(uint base, Candidate first, float best, uint limit, uvec2 seed, uint draws) {
    Candidate winner = kAfterAll;
    for (uint quad = gl_LocalInvocationIndex; quad < (p.width + 3) / 4; quad += gl_WorkGroupSize.x) {
        const uvec4 words = philox(uvec4(quad, draws, 0, 0), seed);
        [[unroll]] for (uint j = 0; j < 4; ++j) {
            const uint i = 4 * quad + j;
            if (i >= p.width) continue;
            const uint bits = x[base + i];
            const float weight = log_weight(bits, best);
            if (first.key - order_key(bits) > limit || weight < s.lowest) continue;
            const float score = weight - log(exponential_number(words[j]));
            const Candidate candidate = Candidate(order_key(floatBitsToUint(score)), i);
            if (comes_before(candidate, winner)) winner = candidate;
        }
    }
    return winner;
}

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;  // the whole workgroup leaves
    read_settings(row);
    const uint base = row * p.width;
    const uint state = row * kSampleRandomWords;
    const uvec2 seed = uvec2(random[state], random[state + 1]);
    const uint draws = random[state + 2];

    Candidate first = kAfterAll;
    for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x) {
        const Candidate candidate = Candidate(order_key(x[base + i]), i);
        if (comes_before(candidate, first)) first = candidate;
    }
    first = workgroup_first(first);
    uint chosen = choice_of(first);

    const float best = uintBitsToFloat(x[base + first.index]);
    if (s.inverse_temperature != 0.0 && first.key != kNanKey && best != MINUS_INFINITY)  // the same for the whole workgroup
        chosen = workgroup_first(race(base, first, best, kept_distance(base, first, best), seed, draws)).index;

    if (gl_LocalInvocationIndex == 0) {
        y[row] = chosen;
        random[state + 2] = draws + 1;
    }
}
