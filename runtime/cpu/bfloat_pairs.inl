// SPDX-License-Identifier: MIT
// Pairs of bfloat16 for BfloatPairKernels; see vectors.inl.
#include "cpu/vectors.inl"

/// The nearest bfloat16, of two that are as near the even one, in the lower half of the bits.
inline std::uint32_t bfloat_bits(float x) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return x == x ? (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 : bits >> 16 | 0x40;
}

inline float pair_of(float first, float second) {
    return bits_to_float(bfloat_bits(first) | bfloat_bits(second) << 16);
}

inline void pair_neighbours(const float* x, std::size_t count, float* pairs) {
    std::size_t i = 0;
#ifdef VKFORMER_HAS_AVX512
    for (; i + 32 <= count; i += 32) {
        const auto some = (__m512)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + i + 16), _mm512_loadu_ps(x + i));
        _mm512_storeu_ps(pairs + i / 2, some);
    }
#endif
    for (; i < count; i += 2) pairs[i / 2] = pair_of(x[i], i + 1 < count ? x[i + 1] : 0);
}

inline void pair_rows(const float* first, const float* second, std::size_t count, float* pairs) {
    std::size_t i = 0;
#ifdef VKFORMER_HAS_AVX512
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    for (; i + 16 <= count; i += 16) {
        const auto both = (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(second + i), _mm512_loadu_ps(first + i));
        _mm512_storeu_si512(pairs + i, _mm512_permutexvar_epi16(order, both));
    }
#endif
    for (; i < count; ++i) pairs[i] = pair_of(first[i], second[i]);
}
