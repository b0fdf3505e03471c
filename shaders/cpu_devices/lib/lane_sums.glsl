// SPDX-License-Identifier: MIT
// Sums over the lanes of a subgroup of kCpuLanes, as many at a time as there are lanes: half the additions and shuffles of one sum
// after the other, and every lane gets one of them.
#ifndef VKFORMER_LANE_SUMS_GLSL
#define VKFORMER_LANE_SUMS_GLSL
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "cpu_devices/lib/lanes.h"

// Where two lanes' numbers differ in the bit `distance`, the one that has it not gets the sum of both `lower`, the other of both `upper`.
float fold(float lower, float upper, uint distance) {
    const bool is_upper = (gl_SubgroupInvocationID & distance) != 0;
    return (is_upper ? upper : lower) + subgroupShuffle(is_upper ? lower : upper, gl_SubgroupInvocationID ^ distance);
}

// The sum of a number over all lanes, in each of them.
float lane_sum(float part) {
    [[unroll]] for (uint distance = 4; distance > 0; distance /= 2)
        part += subgroupShuffle(part, gl_SubgroupInvocationID ^ distance);
    return part;
}

// Lane l: the sum over all lanes of parts[l].
float lane_sums(float parts[kCpuLanes]) {
    float fours[4], twos[2];
    [[unroll]] for (uint i = 0; i < 4; ++i) fours[i] = fold(parts[i], parts[i + 4], 4);
    [[unroll]] for (uint i = 0; i < 2; ++i) twos[i] = fold(fours[i], fours[i + 2], 2);
    return fold(twos[0], twos[1], 1);
}
#endif
