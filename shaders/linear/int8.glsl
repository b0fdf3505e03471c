// SPDX-License-Identifier: MIT
// Activations in 8 bits, sixteen at a time, for integer dot products with quantised weights:
//     x ≈ scale · q,  q = round(x / scale) in −127 … 127,  scale = max |x| / 127
// A NaN or infinity among them makes the scale one, so that it stays visible.
#ifndef VKFORMER_INT8_GLSL
#define VKFORMER_INT8_GLSL
#extension GL_EXT_integer_dot_product : require
#include "lib/numbers.glsl"

struct Int8Sixteen {
    ivec4 q;      // four to a word, the first element lowest
    float scale;
    float total;  // scale · Σ q: what an offset of the weights is multiplied by
};

// Four numbers of −127 … 127, rounded to integers as drivers round sums: to the nearest. Beside 1.5 · 2^23 a float has no bits for less
// than one: what is added to it is rounded, and stands in its lowest bits as a signed integer does.
int pack_int8(vec4 value) {
    precise const vec4 beside = value + 12582912.0;
    const uvec4 q = floatBitsToUint(beside) & 0xFFu;
    return int(q.x | q.y << 8 | q.z << 16 | q.w << 24);
}

float max_magnitude(vec4 a, float largest) {
    [[unroll]] for (uint i = 0; i < 4; ++i) largest = max_keeping_nan(abs(a[i]), largest);
    return largest;
}

Int8Sixteen to_int8(vec4 value[4]) {
    float largest = 0.0;
    [[unroll]] for (uint i = 0; i < 4; ++i) largest = max_magnitude(value[i], largest);
    const float scale = largest / 127.0, inverse = largest > 0.0 ? 127.0 / largest : 0.0;
    Int8Sixteen result;
    int sum = 0;
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        result.q[i] = pack_int8(value[i] * inverse);
        sum += dotPacked4x8EXT(result.q[i], 0x01010101);
    }
    result.scale = scale;
    result.total = scale * float(sum);
    return result;
}

// Σ a · b over sixteen elements: at most 16 · 127 · 128, far within 32 bits.
int dot16(ivec4 a, ivec4 b) {
    return dotPacked4x8EXT(a.x, b.x) + dotPacked4x8EXT(a.y, b.y) + dotPacked4x8EXT(a.z, b.z) + dotPacked4x8EXT(a.w, b.w);
}
#endif
