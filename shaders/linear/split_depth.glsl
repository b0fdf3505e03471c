// SPDX-License-Identifier: MIT
// The depth of a product cut into SPLITS parts, a workgroup each, for products with too few tiles to fill a device. With SPLITS = 1 a
// workgroup finishes its results; else it leaves partial sums, which linear/combine.comp adds up in the order of the depth. Included
// behind linear/epilogue.glsl.
#ifndef VKFORMER_LINEAR_SPLIT_DEPTH_GLSL
#define VKFORMER_LINEAR_SPLIT_DEPTH_GLSL
layout(constant_id = kLinearSplits) const uint SPLITS = 1;
layout(std430, binding = kLinearPartial) writeonly buffer Partial { float partial[]; };

uint split_workgroup() { return linear_workgroup() / SPLITS; }
uint split_of_depth() { return linear_workgroup() % SPLITS; }

// Steps x … y − 1, of `count` steps of the depth, belong to this workgroup.
uvec2 steps_of_split(uint count) {
    const uint split = split_of_depth();
    return uvec2(count * split / SPLITS, count * (split + 1) / SPLITS);
}

uint partial_at(uint row, uint column) { return p.partial_before + (split_of_depth() * p.rows + row) * p.out_width + column; }

void finish_split(uint row, uint column, float sum) {
    if (SPLITS == 1)
        finish(row, column, sum);
    else
        partial[partial_at(row, column)] = sum;
}

void finish_gated_split(uint row, uint column, uint turn, float gate, float other) {
    if (SPLITS == 1) {
        finish_gated(row, column, turn, gate, other);
        return;
    }
    const uint half_width = p.out_width / 2, at = gated_column(column, turn);
    if (at >= half_width) return;
    partial[partial_at(row, at)] = gate;
    partial[partial_at(row, half_width + at)] = other;
}
#undef FINISH
#undef FINISH_GATED
#define FINISH finish_split
#define FINISH_GATED finish_gated_split
#endif
