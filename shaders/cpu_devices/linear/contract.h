// SPDX-License-Identifier: MIT
// What the algorithms of linear for Vulkan devices that are CPUs add to linear/contract.h.
#ifndef VKFORMER_SHADERS_CPU_LINEAR_H
#define VKFORMER_SHADERS_CPU_LINEAR_H
#include "cpu_devices/lib/lanes.h"
#include "linear/contract.h"
SHARED_BEGIN
const uint kCpuLinearTaken = 8;       // of those that take tiles (cpu_devices/lib/tiles.glsl): one word
const uint kCpuLinearDepthWords = 13;  // specialization constant of depth.comp: words of the depth that are taken at a time, one of two
const uint kCpuLinearFewWords = 16, kCpuLinearManyWords = 64;
// columns.comp and quantized_columns.comp: the workgroup, which is the lanes of lavapipe and two times those of SwiftShader, so small that
// small layers still fill all cores; columns per invocation
const uint kCpuLinearWorkgroup = 8, kCpuLinearLaneColumns = 4;
// depth.comp and quantized_depth.comp: most rows, and columns of a tile
const uint kCpuLinearDepthMaxRows = 4, kCpuLinearDepthColumns = 16;
// quantized_depth.comp: elements of the depth that are taken at a time
const uint kCpuLinearQuantizedDepth = 64;
// columns_shuffled.comp, and quantized_columns_shuffled.comp with words of 32 bits: most rows of a workgroup, columns per lane, and the
// elements of a row that are loaded at a time
const uint kCpuLinearShuffledMaxRows = 32, kCpuLinearShuffledColumns = 4, kCpuLinearShuffledDepth = 8;
// quantized_columns_shuffled.comp with words of 64 bits; a larger tile is slower there, but a gate needs pairs of columns
const uint kCpuLinearWideRows = 16, kCpuLinearWideColumns = 3, kCpuLinearWideGatedColumns = 4, kCpuLinearWideDepth = 16;
// Push constants behind PART_OF_GRID and LinearPush, of the shaders with VECTORS: the addresses (64 bits) of x, weight and gain, and of the
// memory of cpu_devices/lib/staged.glsl.
const uint kCpuLinearXAddress = 40, kCpuLinearWeightAddress = 48, kCpuLinearGainAddress = 56, kCpuLinearStagedAddress = 64;
SHARED_END
#endif
