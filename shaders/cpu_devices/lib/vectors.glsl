// SPDX-License-Identifier: MIT
// Loads of a vector of 8 words of 32 bits that lie side by side, a word for each lane, for Vulkan devices that are CPUs with subgroups of
// kCpuLanes (cpu_devices/lib/wide.glsl).
// A load whose address differs between lanes is a gather there, as slow as so many loads. Here every lane asks for all words, at
// addresses that are the same for all, and keeps its own: the compiler makes one load of a vector register of that, as long as nothing
// stands between it and memory. A storage buffer's bounds do, so memory is read by its address.
// **Every address must lie inside the tensor, even where no lane is active**: what is the same in all lanes is loaded whether or not one
// is. Code behind a `return` that was taken may run, and a loop whose condition has failed may run its body once more: clamp rows and
// counters.
#ifndef VKFORMER_VECTORS_GLSL
#define VKFORMER_VECTORS_GLSL
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_KHR_shader_subgroup_basic : require
#include "cpu_devices/lib/lanes.h"

layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer OneFloat { float v; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer FourFloats { vec4 v; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer FourWords { uvec4 v; };

float own_of(vec4 low, vec4 high) {
    const uint lane = gl_SubgroupInvocationID;
    float own = low.x;
    own = lane == 1 ? low.y : own;
    own = lane == 2 ? low.z : own;
    own = lane == 3 ? low.w : own;
    own = lane == 4 ? high.x : own;
    own = lane == 5 ? high.y : own;
    own = lane == 6 ? high.z : own;
    return lane == 7 ? high.w : own;
}
uint own_of(uvec4 low, uvec4 high) {
    const uint lane = gl_SubgroupInvocationID;
    uint own = low.x;
    own = lane == 1 ? low.y : own;
    own = lane == 2 ? low.z : own;
    own = lane == 3 ? low.w : own;
    own = lane == 4 ? high.x : own;
    own = lane == 5 ? high.y : own;
    own = lane == 6 ? high.z : own;
    return lane == 7 ? high.w : own;
}

// Words 0 to 3 from `low`, for lanes 0 to 3, and as many from `high`. Addresses: multiples of 4, the same in all lanes.
float float_vector(uint64_t low, uint64_t high) { return own_of(FourFloats(low).v, FourFloats(high).v); }
uint word_vector(uint64_t low, uint64_t high) { return own_of(FourWords(low).v, FourWords(high).v); }
#endif
