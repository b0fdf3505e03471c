// SPDX-License-Identifier: MIT
// What the algorithms of attention and decode_attention for Vulkan devices that are CPUs add to attention/contract.h and
// decode_attention/contract.h.
#ifndef VKFORMER_SHADERS_CPU_ATTENTION_H
#define VKFORMER_SHADERS_CPU_ATTENTION_H
#include "attention/contract.h"
#include "cpu_devices/lib/lanes.h"
#include "decode_attention/contract.h"
SHARED_BEGIN
// Specialization constants, beside kAttentionMask.
const uint kCpuAttentionHeadDim = 11, kCpuAttentionValueDim = 12;
const uint kCpuAttentionRows = 13;  // of a workgroup of keys.comp: up to 4, or a multiple of 4

const uint kCpuAttentionMaxDim = 256;    // of both: they are unrolled, lavapipe compiles this for 5 seconds
const uint kCpuAttentionWorkgroup = 8;   // queries.comp: the lanes of lavapipe, two times those of SwiftShader
const uint kCpuAttentionKeys = 32;       // keys.comp: of a block; a multiple of kCpuLanes
const uint kCpuAttentionDepth = 8;       // keys.comp: elements of a row that are taken at a time
// keys.comp with VECTORS: most of head_dim and value_dim. Where more is unrolled, compilers make no vector loads.
const uint kCpuAttentionVectorsMaxDim = 128;
// keys.comp: so few rows of a key head take the smaller tile: it compiles in half the time, which is more than a prompt of them takes.
const uint kCpuAttentionFewRows = 64;
// Push constants behind PART_OF_GRID and AttentionPush or DecodeAttentionPush, of the shaders with VECTORS: addresses (64 bits).
const uint kCpuAttentionQueryAddress = 64, kCpuAttentionKeyAddress = 72, kCpuAttentionValueAddress = 80;
SHARED_END
#endif
