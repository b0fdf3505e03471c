// SPDX-License-Identifier: MIT
// The first of a workgroup's candidates in the order of lib/order.glsl; as workgroup_max in lib/reduce.glsl. All invocations
// must call, all get the result. The workgroup's size is a power of two ≤ kMaxWorkgroup. 2 KiB of shared memory.
#ifndef VKFORMER_REDUCE_CANDIDATE_GLSL
#define VKFORMER_REDUCE_CANDIDATE_GLSL
#include "lib/order.glsl"

shared Candidate candidate_scratch[kMaxWorkgroup];

Candidate workgroup_first(Candidate candidate) {
    const uint lane = gl_LocalInvocationIndex;
    barrier();  // the scratch may still be read by the reduction before
    candidate_scratch[lane] = candidate;
    for (uint width = gl_WorkGroupSize.x / 2; width > 0; width /= 2) {
        barrier();
        if (lane < width && comes_before(candidate_scratch[lane + width], candidate_scratch[lane]))
            candidate_scratch[lane] = candidate_scratch[lane + width];
    }
    barrier();
    return candidate_scratch[0];
}

#endif
