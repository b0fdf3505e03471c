// SPDX-License-Identifier: MIT
// Sums and maxima over a workgroup of gl_WorkGroupSize.x ≤ kMaxWorkgroup invocations, through shared memory: no subgroup
// operations, any size that is a power of two. All invocations must call, all get the result. 1 KiB of shared memory.
#ifndef VKFORMER_REDUCE_GLSL
#define VKFORMER_REDUCE_GLSL
#include "lib/numbers.glsl"

shared float reduce_scratch[kMaxWorkgroup];

float workgroup_sum(float value) {
    const uint lane = gl_LocalInvocationIndex;
    barrier();  // the scratch may still be read by the reduction before
    reduce_scratch[lane] = value;
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
    for (uint width = gl_WorkGroupSize.x / 2; width > 0; width /= 2) {
        barrier();
        if (lane < width) reduce_scratch[lane] = max_keeping_nan(reduce_scratch[lane], reduce_scratch[lane + width]);
    }
    barrier();
    return reduce_scratch[0];
}

#endif
