#version 460
// SPDX-License-Identifier: MIT
// gated_activation/elements.comp for Vulkan devices that are CPUs with subgroups of 8 and have buffer addresses, where rows are a multiple of
// kCpuGatedActivationStepWords words of 32 bits (floats, pairs of halves): y[row, i] = f(gate[row, i]) · up[row, i], f of lib/activation.glsl.
// y: [rows, width]; gate and up are two tensors of that shape, or one [rows, 2 · width] with the gates first; storage as
// lib/storage.glsl says, arithmetic in float32. Shazeer 2020, eq. 5, 6.
// One workgroup, which is a subgroup, per kCpuGatedActivationChunkWords consecutive words of a row, loaded as vectors (cpu_devices/lib/vectors.glsl).
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#define VECTORS
#include "cpu_devices/gated_activation/contract.h"
#include "lib/grid.glsl"
#include "lib/halves.glsl"
#include "cpu_devices/lib/vectors.glsl"
#include "cpu_devices/lib/wide.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kGatedActivationActivation) const uint ACTIVATION = kActivationNone;
layout(push_constant) uniform Push {
    PART_OF_GRID
    GatedActivationPush p;
    layout(offset = kCpuGatedActivationGateAddress) uint64_t gate_address;
    layout(offset = kCpuGatedActivationUpAddress) uint64_t up_address;
};
#include "gated_activation/gated.glsl"
layout(std430, binding = kGatedActivationY) writeonly buffer Y { WORD y[]; };

#ifdef F16
uint words_at(uint64_t address) { return word_vector(address, address + kCpuLanes * 2); }
uint word_of(vec4 elements) { return rounded_halves(elements.xy); }
#else
float words_at(uint64_t address) { return float_vector(address, address + kCpuLanes * 2); }
float word_of(vec4 elements) { return elements.x; }
#endif

void main() {
    const uint width = p.width / WORD_ELEMENTS;
    const uint chunks = (width + kCpuGatedActivationChunkWords - 1) / kCpuGatedActivationChunkWords;
    const uint row = linear_workgroup() / chunks, first = linear_workgroup() % chunks * kCpuGatedActivationChunkWords;
    if (row >= p.rows) return;
    const uint loaded_row = min(row, p.rows - 1);  // cpu_devices/lib/vectors.glsl says why
    const uint count = min(kCpuGatedActivationChunkWords, width - first), at = loaded_row * (p.stride / WORD_ELEMENTS) + first;
    const uint64_t gates = gate_address + uint64_t(at) * 4;
    const uint64_t ups = up_address + uint64_t(at + p.up_offset / WORD_ELEMENTS) * 4;
    for (uint step = 0; step < count; step += kCpuGatedActivationStepWords) {
        const uint clamped = min(step, count - kCpuGatedActivationStepWords);
        [[unroll]] for (uint i = 0; i < kCpuGatedActivationStepWords; i += kCpuLanes) {
            const uint64_t word = uint64_t(clamped + i) * 4;
            vec4 elements = word_elements(words_at(gates + word));
            const vec4 others = word_elements(words_at(ups + word));
            [[unroll]] for (uint e = 0; e < WORD_ELEMENTS; ++e) elements[e] = gated(elements[e], others[e]);
            y[row * width + first + clamped + i + gl_SubgroupInvocationID] = word_of(elements);
        }
    }
}
