// SPDX-License-Identifier: MIT
// Sums of four rows and four columns, as a matrix that has a column for each. A component of a vector may be chosen by a loop's counter,
// and a column by a constant: so they stay in registers, also where a compiler lays arrays that a counter indexes into memory before it
// unrolls the loop (docs/portability.md).
#ifndef VKFORMER_TILE_SUMS_GLSL
#define VKFORMER_TILE_SUMS_GLSL

vec4 row_of(mat4 m, uint row) { return vec4(m[0][row], m[1][row], m[2][row], m[3][row]); }

// sums[row, c] += x · w[c]. The columns follow each other and do not wait for each other.
void add_products(inout mat4 sums, uint row, vec4 x, mat4 w) {
    vec4 of_row = row_of(sums, row);
    of_row = fma(x.xxxx, row_of(w, 0), of_row);
    of_row = fma(x.yyyy, row_of(w, 1), of_row);
    of_row = fma(x.zzzz, row_of(w, 2), of_row);
    of_row = fma(x.wwww, row_of(w, 3), of_row);
    sums[0][row] = of_row.x;
    sums[1][row] = of_row.y;
    sums[2][row] = of_row.z;
    sums[3][row] = of_row.w;
}
#endif
