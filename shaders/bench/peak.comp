#version 460
// SPDX-License-Identifier: MIT
// The rate of multiply-adds on registers: counts[i] = rounds in which all sums of invocation i came out right.
//   (nothing)    float              2 operations per step and chain
//   F16          f16vec2, packed    4
//   INT_DOT      int, products of four bytes each, summed    8
// sum = sum · one + one, with `one` from a buffer, so that no compiler can know the sum: kBenchSteps later it is larger by that,
// exactly (525 < 2^11, the integers that float16 holds). INT_DOT: sum = dot(bytes of sum, −1 and zeros) + 14 = 14 − sum, all sums
// staying 1 to 13, since a product that does not depend on the sum would be taken out of the loop. Sums start at another number in
// odd rounds, so that no round can stand for the others. 12 chains hide the latency of a multiply-add: 4 to 6 cycles on all GPUs, 4
// on the two units of a CPU's core.
// FUSED asks for fma(); else a product and a sum, which a driver may fuse: which is faster depends on the driver. It is no
// specialization constant: SwiftShader compiles 192 choices by one for more than a minute, and 192 sums in 0.2 s.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "bench/contract.h"
#include "lib/grid.glsl"
const uvec2 first_workgroup = uvec2(0);  // whole grids
#ifdef F16
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define TYPE f16vec2
#define FROM_BITS(bits) f16vec2(unpackHalf2x16(bits))
#define NUMBER(n) f16vec2(float16_t(n))
#elif defined(INT_DOT)
#extension GL_EXT_integer_dot_product : require
#define TYPE int
#define FROM_BITS(bits) int(bits)
#define NUMBER(n) int(n)
#else
#define TYPE float
#define FROM_BITS(bits) uintBitsToFloat(bits)
#define NUMBER(n) float(n)
#endif
layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { BenchPeakPush p; };
layout(std430, binding = kBenchOperands) readonly buffer Operands { uint operands[]; };
layout(std430, binding = kBenchCounts) writeonly buffer Counts { uint counts[]; };

void accumulate(inout TYPE sum, TYPE one) {
#ifdef INT_DOT
    sum = dotPacked4x8EXT(sum, one) + kBenchDotSum;
#elif defined(FUSED)
    sum = fma(sum, one, one);
#else
    sum = sum * one + one;
#endif
}

TYPE start(uint round, uint chain) { return NUMBER((round & 1u) + chain + 1u); }
TYPE end(uint round, uint chain) {
#ifdef INT_DOT
    return start(round, chain);  // after an even number of steps
#else
    return NUMBER((round & 1u) + chain + 1u + kBenchSteps);
#endif
}

void main() {
    const uint first = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    const TYPE one = FROM_BITS(operands[0]);
    uint right = 0;
    for (uint round = 0; round < p.rounds; ++round) {
        TYPE sums[kBenchChains];
        [[unroll]] for (uint c = 0; c < kBenchChains; ++c) sums[c] = start(round, c);
        for (uint s = 0; s < kBenchSteps; s += 16)
            [[unroll]] for (uint u = 0; u < 16; ++u)
                [[unroll]] for (uint c = 0; c < kBenchChains; ++c) accumulate(sums[c], one);
        bool all_right = true;
        [[unroll]] for (uint c = 0; c < kBenchChains; ++c)
            all_right = all_right && sums[c] == end(round, c);
        right += all_right ? 1 : 0;
    }
    counts[first] = right;
}
