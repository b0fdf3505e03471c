// SPDX-License-Identifier: MIT
// What the row shaders for quantised weights and linear/row_vec4.comp share: ROWS · COLUMNS sums of a workgroup, of which every
// invocation has a part. Included behind linear/epilogue.glsl and, if at all, linear/split_depth.glsl.
// Shared memory: a float for each sum and invocation, and with a norm for each row and invocation (rows.cpp).
#ifndef VKFORMER_LINEAR_ROW_SUMS_GLSL
#define VKFORMER_LINEAR_ROW_SUMS_GLSL
layout(constant_id = kLinearRows) const uint ROWS = 1;
layout(constant_id = kLinearColumns) const uint COLUMNS = 4;

// An invocation's sums of a column are in vectors, a component for each of four rows: of arrays that a loop's counter indexes some
// compilers keep none but small ones in registers, and count each element as a vector (docs/portability.md).
const uint ROW_QUADS = (ROWS + 3) / 4;

const uint PARTS_PITCH = gl_WorkGroupSize.x + 1;  // odd: the sums that neighbours add up then lie in different banks
const uint PART_SUMS = ROWS * (COLUMNS + (HAS_NORM ? 1 : 0));
shared float parts[PART_SUMS * PARTS_PITCH];

void put_part(uint row, uint column, float sum) {
    parts[(row * COLUMNS + column) * PARTS_PITCH + gl_LocalInvocationIndex] = sum;
}

// With a norm, behind the sums.
void put_squares(uint row, float squares) {
    parts[(ROWS * COLUMNS + row) * PARTS_PITCH + gl_LocalInvocationIndex] = squares;
}

float row_sum(uint sum) {
    float total = 0.0;
    [[unroll]] for (uint i = 0; i < 8; ++i) total += parts[sum * PARTS_PITCH + i];
    return total;
}

float scaled_row_sum(uint sum) {
    const float total = row_sum(sum);
    return HAS_NORM ? total * norm_scale(row_sum(ROWS * COLUMNS + sum / COLUMNS)) : total;
}

// Adds up the parts, first those of every eighth invocation, and finishes the results.
void finish_row_sums(uint first_column) {
    const uint lane = gl_LocalInvocationIndex;
    barrier();
    for (uint t = lane; t < PART_SUMS * 8; t += gl_WorkGroupSize.x) {
        const uint at = t / 8 * PARTS_PITCH + t % 8;
        float total = 0.0;
        [[unroll]] for (uint i = 0; i < gl_WorkGroupSize.x; i += 8) total += parts[at + i];
        parts[at] = total;  // nobody else reads this place before the barrier
    }
    barrier();
    if (END == kLinearEndGate) {  // then COLUMNS is even
        const uint sum = lane * 2;
        if (sum < ROWS * COLUMNS)
            FINISH_GATED(sum / COLUMNS, first_column + sum % COLUMNS, 1, scaled_row_sum(sum), scaled_row_sum(sum + 1));
        return;
    }
    if (lane >= ROWS * COLUMNS) return;
    const uint column = first_column + lane % COLUMNS;
    if (column < p.out_width) FINISH(lane / COLUMNS, column, scaled_row_sum(lane));
}
#endif
