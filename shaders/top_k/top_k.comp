#version 460
// SPDX-License-Identifier: MIT
// values[row, j], indices[row, j] = element j of x[row] in the order of lib/order.glsl: the k largest in falling order, the
// lower index first on ties, NaN above everything. x: f32 [rows, width], values: f32 [rows, k], both handled as bits;
// indices: i32 [rows, k]; k ≤ width.
// One workgroup per row; an invocation owns the elements i ≡ its index modulo the workgroup's size and keeps the best four that
// are not chosen yet, in order, in registers. Choosing one is a reduction over everybody's best, after which its owner drops it;
// only who has run out of kept ones scans its elements again, for the four after the last it dropped. So the row is read once,
// and for each further time a 1/128 of it.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "top_k/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID TopKPush p; };
layout(std430, binding = kTopKX) readonly buffer X { uint x[]; };
layout(std430, binding = kTopKValues) writeonly buffer Values { uint values[]; };
layout(std430, binding = kTopKIndices) writeonly buffer Indices { uint indices[]; };
#include "lib/reduce_candidate.glsl"

const uint KEPT = 4;

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;  // the whole workgroup leaves

    Candidate kept[KEPT];
    Candidate dropped = kBeforeAll;  // the last of this invocation's elements that was chosen
    bool run_out = true;
    for (uint j = 0; j < p.k; ++j) {
        if (run_out) {
            [[unroll]] for (uint n = 0; n < KEPT; ++n) kept[n] = kAfterAll;
            for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x) {
                Candidate candidate = Candidate(order_key(x[row * p.width + i]), i);
                if (!comes_before(dropped, candidate) || !comes_before(candidate, kept[KEPT - 1])) continue;
                [[unroll]] for (uint n = 0; n < KEPT; ++n) {  // insert: what is worse moves on
                    if (comes_before(candidate, kept[n])) {
                        const Candidate worse = kept[n];
                        kept[n] = candidate;
                        candidate = worse;
                    }
                }
            }
            run_out = false;
        }

        const Candidate chosen = workgroup_first(kept[0]);
        if (gl_LocalInvocationIndex == 0) {
            values[row * p.k + j] = x[row * p.width + chosen.index];
            indices[row * p.k + j] = chosen.index;
        }
        if (chosen.index == kept[0].index) {
            dropped = chosen;
            [[unroll]] for (uint n = 0; n + 1 < KEPT; ++n) kept[n] = kept[n + 1];
            kept[KEPT - 1] = kAfterAll;
            run_out = kept[0] == kAfterAll;
        }
    }
}
