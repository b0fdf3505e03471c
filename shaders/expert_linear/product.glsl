// SPDX-License-Identifier: MIT
// What the algorithms of expert_linear have in common, in place of linear/epilogue.glsl and linear/split_depth.glsl: which rows of x, weight and y
// belong to a workgroup. x, weight and y have one storage (lib/storage.glsl), or weight a format of its own.
#ifndef VKFORMER_EXPERT_LINEAR_PRODUCT_GLSL
#define VKFORMER_EXPERT_LINEAR_PRODUCT_GLSL
#include "expert_linear/contract.h"
#include "lib/grid.glsl"
#include "lib/numbers.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID ExpertLinearPush p; };
layout(std430, binding = kLinearY) STORED buffer Y { ELEMENT y[]; };

uint own_expert;  // of this workgroup, from the first of weight on; p.count: one that there is not, whose results are NaN

// Rows of weight that lie before the expert's, and all of them.
uint weight_before() { return min(own_expert, p.count - 1) * p.out_width; }
uint weight_rows() { return p.count * p.out_width; }

void store_sum(uint pair, uint column, float sum) {
    STORE(y, pair * p.out_width + column, own_expert < p.count ? sum : NOT_A_NUMBER);
}

#ifdef EXPERTS
layout(std430, binding = kExpertLinearGroups) readonly buffer Groups { uint groups[]; };

uint pair_of(uint place) { return groups[p.tiles * kExpertLinearTileWords + place]; }

// As those of linear/epilogue.glsl and linear/split_depth.glsl; rows are places here.
uint packed_before() { return weight_before(); }
uint packed_rows() { return weight_rows(); }
uint row_of_x(uint place) { return pair_of(place) / p.sharing; }
uint weight_row_of(uint column, uint turn) { return min(column, p.out_width - 1); }
uint split_workgroup() { return linear_workgroup(); }
uvec2 steps_of_split(uint count) { return uvec2(0, count); }

uvec2 rows_of_tile(uint tile, uint tile_rows) {
    if (tile >= p.tiles) return uvec2(0);
    own_expert = groups[tile * kExpertLinearTileWords + 2];
    return uvec2(groups[tile * kExpertLinearTileWords], groups[tile * kExpertLinearTileWords + 1]);
}

#define FINISH_COLUMN(row, first, turn, c, sums) \
    if ((first) + (c) * (turn) < p.out_width) store_sum(pair_of(row), (first) + (c) * (turn), (sums)[c]);
#else
layout(std430, binding = kExpertLinearExperts) readonly buffer Experts { uint experts[]; };

// What linear/row_sums.glsl asks for: no norm and no gate.
const bool HAS_NORM = false;
const uint END = kLinearEndNone;
float norm_scale(float squares) { return 1.0; }
uint own_pair;
#define FINISH(row, column, sum) store_sum(own_pair, column, sum)
#define FINISH_GATED(row, column, turn, gate, other)
#include "linear/row_sums.glsl"

// Whether the workgroup has a pair of this weight; `first_column` is where its COLUMNS columns begin.
bool take_pair(out uint first_column) {
    const uint column_groups = (p.out_width + COLUMNS - 1) / COLUMNS;
    own_pair = linear_workgroup() / column_groups;
    first_column = linear_workgroup() % column_groups * COLUMNS;
    if (own_pair >= p.pairs) return false;
    const uint expert = experts[own_pair];  // a negative one becomes larger than any
    own_expert = expert < p.experts ? expert - p.first : p.count;
    return expert < p.experts ? own_expert < p.count : p.first == 0;
}
#endif
#endif
