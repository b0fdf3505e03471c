#version 460
// SPDX-License-Identifier: MIT
// The rate of cooperative matrix products on registers: counts[subgroup] = rounds in which every element of every product came out
// right. a [m, k] and b [k, n] are ones from a buffer, float16; sum [m, n] += a · b, float32: after kBenchMatrixSteps steps every
// element is k · kBenchMatrixSteps larger, exactly. One workgroup is whole subgroups; each has its own kBenchMatrices sums.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#include "bench/contract.h"
#include "lib/grid.glsl"
const uvec2 first_workgroup = uvec2(0);  // whole grids
layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = 1) const uint M = 16;
layout(constant_id = 2) const uint N = 16;
layout(constant_id = 3) const uint K = 16;
layout(push_constant) uniform Push { BenchPeakPush p; };
layout(std430, binding = kBenchOperands) readonly buffer Operands { float16_t operands[]; };
layout(std430, binding = kBenchCounts) writeonly buffer Counts { uint counts[]; };

void main() {
    coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> a;
    coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> b;
    coopMatLoad(a, operands, 0, K, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(b, operands, 0, N, gl_CooperativeMatrixLayoutRowMajor);
    uint right = 0;
    for (uint round = 0; round < p.rounds; ++round) {
        coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> sums[kBenchMatrices];
        [[unroll]] for (uint i = 0; i < kBenchMatrices; ++i)
            sums[i] = coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>(float((round & 1u) + i));
        for (uint s = 0; s < kBenchMatrixSteps; s += 4)
            [[unroll]] for (uint u = 0; u < 4; ++u)
                [[unroll]] for (uint i = 0; i < kBenchMatrices; ++i) sums[i] = coopMatMulAdd(a, b, sums[i]);
        bool all_right = true;
        [[unroll]] for (uint i = 0; i < kBenchMatrices; ++i)
            for (uint e = 0; e < sums[i].length(); ++e)
                all_right = all_right && sums[i][e] == float((round & 1u) + i + K * kBenchMatrixSteps);
        right += subgroupAll(all_right) ? 1 : 0;
    }
    if (subgroupElect()) counts[linear_workgroup() * gl_NumSubgroups + gl_SubgroupID] = right;
}
