// SPDX-License-Identifier: MIT
// How queries, keys and values of attention/matrix.glsl, included before, come to shared memory.
// The shader declares before: tiles, an array of octets, which are eight halves or four floats, in shared memory.
#ifndef VKFORMER_ATTENTION_MATRIX_TILES_GLSL
#define VKFORMER_ATTENTION_MATRIX_TILES_GLSL

shared uint not_finite;  // of the values of a tile

// Octet o of a row of a tensor, as it is stored; past the end the last elements again.
#define HALVES_AT(buffer, i, o, dim) \
    packFloat2x16(f16vec2(buffer[(i) * dim + min(o, dim - 1)], buffer[(i) * dim + min((o) + 1, dim - 1)]))
#define HALVES(buffer, buffer8, i, o, dim)                                                         \
    if (dim % 8 == 0) return buffer8[(i) * (dim / 8) + min(o, dim / 8 - 1)];                       \
    return uvec4(HALVES_AT(buffer, i, 8 * (o), dim), HALVES_AT(buffer, i, 8 * (o) + 2, dim),       \
                 HALVES_AT(buffer, i, 8 * (o) + 4, dim), HALVES_AT(buffer, i, 8 * (o) + 6, dim));

uvec4 query_octet(uint row, uint octet) { HALVES(query, query8, row, octet, HEAD_DIM) }
#ifdef Q8_CACHE
struct Octet {
    uvec2 bytes;
    uint scales;  // the right one in the lower half
};
#define BLOCK_OCTET(buffer, i, blocks) \
    Octet(uvec2(buffer[(i) * 2], buffer[(i) * 2 + 1]), buffer[(blocks) * 8 + (i) / 8] >> (16 * ((i) / 4 & 1u)))
Octet key_octet(uint row, uint octet) {
    const uint i = row * (HEAD_DIM / 8) + min(octet, HEAD_DIM / 8 - 1);
    return BLOCK_OCTET(key, i, key_blocks);
}
Octet value_octet(uint row, uint octet) {
    const uint i = row * (VALUE_DIM / 8) + min(octet, VALUE_DIM / 8 - 1);
    return BLOCK_OCTET(value, i, value_blocks);
}
uvec4 halves_of(Octet x) {
    const float scale = unpackHalf2x16(x.scales).x;
    const vec4 a = scale * kv_bytes(x.bytes.x), b = scale * kv_bytes(x.bytes.y);
    return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
}
#else
#define Octet uvec4
Octet key_octet(uint row, uint octet) { HALVES(key, key8, row, octet, HEAD_DIM) }
Octet value_octet(uint row, uint octet) { HALVES(value, value8, row, octet, VALUE_DIM) }
uvec4 halves_of(Octet x) { return x; }
#endif

// Zeros for what lies behind the depth.
uvec4 within_depth(uvec4 x, uint octet) {
    if (HEAD_DIM % K != 0)
        [[unroll]] for (uint i = 0; i < 4; ++i) {
            const uint e = octet * 8 + i * 2;
            x[i] = e + 1 < HEAD_DIM ? x[i] : e < HEAD_DIM ? x[i] & 0xFFFFu : 0u;
        }
    return x;
}

void put_queries() {
    for (uint e = gl_LocalInvocationIndex; e < ROWS * DEPTH_OCTETS; e += gl_WorkGroupSize.x) {
        const uint r = e / DEPTH_OCTETS, octet = e % DEPTH_OCTETS;
        tiles[r * DEPTH_PITCH + octet] = within_depth(query_octet(query_row(r), octet), octet);
    }
}

// An invocation's parts of a tile, on their way from memory while others are multiplied. They are loaded without a branch, behind which
// a compiler would wait for them: keys at and past the end are the last again, and masked or weighted with 0.
const uint KEY_LOADS = (TILE_KEYS * DEPTH_OCTETS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const uint VALUE_LOADS = (TILE_KEYS * VALUE_OCTETS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
Octet next_keys[KEY_LOADS];
Octet next_values[VALUE_LOADS];

void fetch_keys(uint first, uint end) {
    const uint offset = key_offset(min(first, end - 1));
    [[unroll]] for (uint i = 0; i < KEY_LOADS; ++i) {
        const uint e = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
        const uint row = offset + min(first + e / DEPTH_OCTETS, end - 1);
        next_keys[i] = key_octet(row * p.kv_heads + kv_head, e % DEPTH_OCTETS);
    }
}

void put_keys(uint at) {
    [[unroll]] for (uint i = 0; i < KEY_LOADS; ++i) {
        const uint e = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x, octet = e % DEPTH_OCTETS;
        if (e < TILE_KEYS * DEPTH_OCTETS)
            tiles[at + e / DEPTH_OCTETS * DEPTH_PITCH + octet] = within_depth(halves_of(next_keys[i]), octet);
    }
}

void fetch_values(uint first, uint end) {
    const uint offset = key_offset(min(first, end - 1));
    [[unroll]] for (uint i = 0; i < VALUE_LOADS; ++i) {
        const uint e = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
        const uint row = offset + min(first + e / VALUE_OCTETS, end - 1);
        next_values[i] = value_octet(row * p.kv_heads + kv_head, e % VALUE_OCTETS);
    }
}

// 0 · NaN: the value of a key that a row does not see must not even be multiplied by 0, and a matrix multiplies all rows with all
// keys. So values that are not finite are staged as zeros, and added row by row. Nothing but broken weights ever comes here.
uint not_finite_of(uint halves) { return (halves & 0x7C007C00u) + 0x04000400u & 0x80008000u; }  // the highest bit of each

uvec4 finite_part(uvec4 x) {
    [[unroll]] for (uint i = 0; i < 4; ++i) x[i] &= ~((not_finite_of(x[i]) >> 15) * 0xFFFFu);
    return x;
}

void put_value(uint at, uint e, uvec4 x) { tiles[at + e / VALUE_OCTETS * VALUE_PITCH + e % VALUE_OCTETS] = x; }

// `may_be_unseen`: whether there is a row that does not see all keys.
void put_values(uint at, bool may_be_unseen) {
    if (!may_be_unseen) {
        [[unroll]] for (uint i = 0; i < VALUE_LOADS; ++i) {
            const uint e = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
            if (e < TILE_KEYS * VALUE_OCTETS) put_value(at, e, halves_of(next_values[i]));
        }
        return;
    }
    [[unroll]] for (uint i = 0; i < VALUE_LOADS; ++i) {
        const uint e = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
        if (e >= TILE_KEYS * VALUE_OCTETS) continue;
        uvec4 x = halves_of(next_values[i]);
        uint found = 0;
        [[unroll]] for (uint c = 0; c < 4; ++c) found |= not_finite_of(x[c]);
        if (found != 0) {
            atomicOr(not_finite, 1);  // several invocations may find one
            x = finite_part(x);
        }
        put_value(at, e, x);
    }
}
#endif
