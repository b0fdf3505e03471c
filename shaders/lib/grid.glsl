// SPDX-License-Identifier: MIT
// A one-dimensional grid of workgroups folded into x and y, because a device may allow only 65535 along one axis.
#ifndef VKFORMER_GRID_GLSL
#define VKFORMER_GRID_GLSL
uint linear_workgroup() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }
#endif
