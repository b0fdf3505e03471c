// SPDX-License-Identifier: MIT
// Included by kernels.cpp and kernels_avx2.cpp, which differ in the compiler's target, each into a namespace of its own. GCC's and clang's vectors of eight lanes become whatever the target has. No function of the
// standard library is called: a copy of one that was compiled for the wider target must not end up in the rest of the program.
#pragma once

using Floats = float __attribute__((vector_size(32)));
using Ints = std::int32_t __attribute__((vector_size(32)));
using Words = std::uint32_t __attribute__((vector_size(32)));
using FourFloats = float __attribute__((vector_size(16)));
using FourWords = std::uint32_t __attribute__((vector_size(16)));

constexpr std::size_t kLanes = 8;

template <class Vector>
inline Vector load(const void* from) {
    Vector result;
    __builtin_memcpy(&result, from, sizeof(Vector));
    return result;
}

/// Asks for what `bytes` bytes of a row that is read from front to back will be followed by. Bytes that no row has do no harm.
template <std::size_t bytes>
inline void prefetch(const void* from) {
    constexpr std::size_t kAhead =
        2048;  // with 2 KiB, not with 0.5 or 4, an Intel Xeon reads weights twice as fast as without
    for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const char*>(from) + kAhead + i);
}

inline void store(float* to, Floats numbers) { __builtin_memcpy(to, &numbers, sizeof numbers); }

/// Unsigned bytes, each a lane.
#ifdef VKFORMER_HAS_AVX2
inline Ints eight_bytes(const std::byte* from) {
    return (Ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}
#else
inline Ints eight_bytes(const std::byte* from) {
    Ints result;
    for (std::size_t i = 0; i < kLanes; ++i) result[i] = static_cast<std::int32_t>(from[i]);
    return result;
}
#endif

inline Floats as_numbers(Ints integers) { return __builtin_convertvector(integers, Floats); }
inline Floats as_floats(Words bits) { return (Floats)bits; }

inline float sum_of(Floats v) {
    const FourFloats fours = __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
    const FourFloats twos = fours + __builtin_shufflevector(fours, fours, 2, 3, 2, 3);
    return twos[0] + twos[1];
}

inline float bits_to_float(std::uint32_t bits) {
    float result;
    __builtin_memcpy(&result, &bits, sizeof result);
    return result;
}

/// Row i of the result has element i of each row.
inline void transpose(Ints* rows) {
    Ints pairs[8], fours[8];
    for (std::size_t i = 0; i < 8; i += 2) {
        pairs[i] = __builtin_shufflevector(rows[i], rows[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        pairs[i + 1] = __builtin_shufflevector(rows[i], rows[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (std::size_t i = 0; i < 8; i += 4)
        for (std::size_t k = 0; k < 2; ++k) {
            fours[i + 2 * k] = __builtin_shufflevector(pairs[i + k], pairs[i + 2 + k], 0, 1, 8, 9, 4, 5, 12, 13);
            fours[i + 2 * k + 1] = __builtin_shufflevector(pairs[i + k], pairs[i + 2 + k], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (std::size_t i = 0; i < 4; ++i) {
        rows[i] = __builtin_shufflevector(fours[i], fours[4 + i], 0, 1, 2, 3, 8, 9, 10, 11);
        rows[4 + i] = __builtin_shufflevector(fours[i], fours[4 + i], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}
