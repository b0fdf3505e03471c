// SPDX-License-Identifier: MIT
// A one-dimensional grid of workgroups folded into x and y, because a device may allow only 65535 along one axis. A grid may run in parts
// (VulkanProgram::grain), and of its size nothing may be read but its width, and that only where y > 0.
#ifndef VKFORMER_GRID_GLSL
#define VKFORMER_GRID_GLSL
uint linear_workgroup() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }
#endif
