// SPDX-License-Identifier: MIT
// A one-dimensional grid of workgroups folded into x and y, because a device may allow only 65535 along one axis; z is for a batch.
// A grid may run in parts (vulkan/bound_dispatch.hpp): push constants begin with where the part begins, PART_OF_GRID. Not with
// vkCmdDispatchBase, which not every driver gets right. Macros, for the block of push constants may stand behind this.
#ifndef VKFORMER_GRID_GLSL
#define VKFORMER_GRID_GLSL
#define PART_OF_GRID uvec2 first_workgroup; /* in its plane, and the plane */
#define linear_workgroup() (first_workgroup.x + gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x)
#define workgroup_plane() (first_workgroup.y + gl_WorkGroupID.z)
#endif
