// SPDX-License-Identifier: MIT
// Tiles of work that workgroups of one subgroup take one after the other until none is left, for Vulkan devices that are CPUs. A driver
// that shares out workgroups among its threads before it starts them lets all wait for the one that woke up last; who takes tiles is
// waited for no longer than for one of them.
// The including shader says where the number of tiles taken lies, with TAKEN_BINDING: zero before a dispatch, and zero again behind it.
#ifndef VKFORMER_TILES_GLSL
#define VKFORMER_TILES_GLSL
#extension GL_KHR_shader_subgroup_shuffle : require
layout(std430, binding = TAKEN_BINDING) coherent buffer Taken { uint taken; };

// The next of `tiles` tiles, the same in all lanes; `tiles` or more: there is none left, and the workgroup must not ask again.
uint take_tile(uint tiles) {
    uint tile = 0;
    if (gl_SubgroupInvocationID == 0) {
        tile = atomicAdd(taken, 1);
        const uint workgroups = gl_NumWorkGroups.x * gl_NumWorkGroups.y * gl_NumWorkGroups.z;
        if (tile == tiles + workgroups - 1) taken = 0;  // each has been told once that there is none: this is the last
    }
    return subgroupShuffle(tile, 0);
}
#endif
