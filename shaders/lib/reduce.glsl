// SPDX-License-Identifier: MIT
// Sums and maxima over a workgroup of gl_WorkGroupSize.x ≤ kMaxWorkgroup invocations, any size that is a power of two. All
// invocations must call, all get the result. 1 KiB of shared memory.
//   (nothing)   through shared memory alone, no subgroup operations
//   SUBGROUP    within the subgroups first, of whatever size they are; the device has subgroup arithmetic
#ifndef VKFORMER_REDUCE_GLSL
#define VKFORMER_REDUCE_GLSL
#include "lib/numbers.glsl"

shared float reduce_scratch[kMaxWorkgroup];

#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

// One result per subgroup in the scratch; how many there are.
uint share_out(float part) {
    barrier();  // the scratch may still be read by the reduction before
    if (subgroupElect()) reduce_scratch[gl_SubgroupID] = part;
    barrier();
    return gl_NumSubgroups;
}

// subgroupMax() may drop a NaN, so the maximum is that of integers in the order of the floats, NaN above all.
float subgroup_max_keeping_nan(float value) {
    const uint bits = floatBitsToUint(isnan(value) ? NOT_A_NUMBER : value);
    const uint largest = subgroupMax((bits >> 31) == 0 ? bits | 0x80000000u : ~bits);
    return uintBitsToFloat((largest >> 31) == 0 ? ~largest : largest & 0x7FFFFFFFu);
}

float workgroup_sum(float value) {
    const float part = subgroupAdd(value);
    if (gl_NumSubgroups == 1) return part;
    const uint parts = share_out(part);
    float total = 0.0;
    for (uint i = 0; i < parts; ++i) total += reduce_scratch[i];
    return total;
}

float workgroup_max(float value) {
    const float part = subgroup_max_keeping_nan(value);
    if (gl_NumSubgroups == 1) return part;
    const uint parts = share_out(part);
    float largest = MINUS_INFINITY;
    for (uint i = 0; i < parts; ++i) largest = max_keeping_nan(largest, reduce_scratch[i]);
    return largest;
}
#else
// A workgroup this small, the lanes of a CPU, halves nothing: two barriers instead of five, and every lane reads the same address.
const uint kSmallWorkgroup = 8;

float workgroup_sum(float value) {
    const uint lane = gl_LocalInvocationIndex;
    barrier();  // the scratch may still be read by the reduction before
    reduce_scratch[lane] = value;
    if (gl_WorkGroupSize.x <= kSmallWorkgroup) {
        barrier();
        float total = 0.0;
        for (uint i = 0; i < gl_WorkGroupSize.x; ++i) total += reduce_scratch[i];
        return total;
    }
    for (uint width = gl_WorkGroupSize.x / 2; width > 0; width /= 2) {
        barrier();
        if (lane < width) reduce_scratch[lane] += reduce_scratch[lane + width];
    }
    barrier();
    return reduce_scratch[0];
}

float workgroup_max(float value) {
    const uint lane = gl_LocalInvocationIndex;
    barrier();
    reduce_scratch[lane] = value;
    if (gl_WorkGroupSize.x <= kSmallWorkgroup) {
        barrier();
        float largest = MINUS_INFINITY;
        for (uint i = 0; i < gl_WorkGroupSize.x; ++i) largest = max_keeping_nan(largest, reduce_scratch[i]);
        return largest;
    }
    for (uint width = gl_WorkGroupSize.x / 2; width > 0; width /= 2) {
        barrier();
        if (lane < width) reduce_scratch[lane] = max_keeping_nan(reduce_scratch[lane], reduce_scratch[lane + width]);
    }
    barrier();
    return reduce_scratch[0];
}
#endif

#endif
