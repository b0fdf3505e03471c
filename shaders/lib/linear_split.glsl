// SPDX-License-Identifier: MIT
// The depth of a product cut into SPLITS parts, a workgroup each, for products with too few tiles to fill a device. With SPLITS = 1 a
// workgroup finishes its results; else it leaves partial sums, which linear_combine.comp adds up in the order of the depth. Included
// behind lib/linear.glsl.
#ifndef VKFORMER_LINEAR_SPLIT_GLSL
#define VKFORMER_LINEAR_SPLIT_GLSL
layout(constant_id = kLinearSplits) const uint SPLITS = 1;
layout(std430, binding = kLinearPartial) writeonly buffer Partial { float partial[]; };

uint split_workgroup() { return linear_workgroup() / SPLITS; }
uint split_of_depth() { return linear_workgroup() % SPLITS; }

// Of `count` steps of the depth, x … y − 1 belong to this workgroup.
uvec2 steps_of_split(uint count) {
    const uint split = split_of_depth();
    return uvec2(count * split / SPLITS, count * (split + 1) / SPLITS);
}

void finish_split(uint row, uint column, float sum) {
    if (SPLITS == 1)
        finish(row, column, sum);
    else
        partial[(split_of_depth() * p.rows + row) * p.out_width + column] = sum;
}
#undef FINISH
#define FINISH finish_split
#endif
