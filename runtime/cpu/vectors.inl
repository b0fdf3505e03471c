// SPDX-License-Identifier: MIT
// Included by kernels.cpp, kernels_avx2.cpp, kernels_neon.cpp and others, which differ in the compiler's target, each into a namespace of
// its own. GCC's and clang's vectors of eight lanes become whatever the target has. No function of the standard library is called: a copy
// of one that was compiled for the wider target must not end up in the rest of the program.
#pragma once

using FourFloats = float __attribute__((vector_size(16)));
using FourInts = std::int32_t __attribute__((vector_size(16)));
using FourWords = std::uint32_t __attribute__((vector_size(16)));

constexpr std::size_t kLanes = 8;

/// A function that there is once: no copy of it for some of its arguments.
#if defined(__clang__)
#define VKFORMER_SHARED_CODE [[gnu::noinline]]
#else
#define VKFORMER_SHARED_CODE [[gnu::noinline, gnu::noclone]]
#endif

#ifdef VKFORMER_HAS_NEON
/// Eight lanes in two registers. GCC has vectors that are wider than the target's in memory, and each sum of a loop with them.
template <class Vector>
struct TwoVectors {
    using Lane = __typeof__(Vector{}[0] + 0);
    Vector lower, upper;

    /// Of the same bits.
    template <class Other>
    explicit operator TwoVectors<Other>() const {
        return {(Other)lower, (Other)upper};
    }
    Lane operator[](std::size_t lane) const { return lane < 4 ? lower[lane] : upper[lane - 4]; }
    TwoVectors operator-() const { return {-lower, -upper}; }
};
using Floats = TwoVectors<FourFloats>;
using Ints = TwoVectors<FourInts>;
using Words = TwoVectors<FourWords>;

#define VKFORMER_ELEMENTWISE(op)                                                                       \
    template <class Vector>                                                                            \
    inline TwoVectors<Vector> operator op(TwoVectors<Vector> a, TwoVectors<Vector> b) {                \
        return {a.lower op b.lower, a.upper op b.upper};                                               \
    }                                                                                                  \
    template <class Vector>                                                                            \
    inline TwoVectors<Vector> operator op(TwoVectors<Vector> a, typename TwoVectors<Vector>::Lane b) { \
        return {a.lower op b, a.upper op b};                                                           \
    }                                                                                                  \
    template <class Vector>                                                                            \
    inline TwoVectors<Vector> operator op(typename TwoVectors<Vector>::Lane a, TwoVectors<Vector> b) { \
        return {a op b.lower, a op b.upper};                                                           \
    }                                                                                                  \
    template <class Vector, class Other>                                                               \
    inline TwoVectors<Vector>& operator op##=(TwoVectors<Vector>& a, Other b) {                        \
        return a = a op b;                                                                             \
    }
VKFORMER_ELEMENTWISE(+)
VKFORMER_ELEMENTWISE(-)
VKFORMER_ELEMENTWISE(*)
VKFORMER_ELEMENTWISE(/)
VKFORMER_ELEMENTWISE(&)
VKFORMER_ELEMENTWISE(|)
VKFORMER_ELEMENTWISE(^)
VKFORMER_ELEMENTWISE(<<)
VKFORMER_ELEMENTWISE(>>)
#undef VKFORMER_ELEMENTWISE

#define VKFORMER_COMPARISON(op)                                                          \
    template <class Vector>                                                              \
    inline Ints operator op(TwoVectors<Vector> a, TwoVectors<Vector> b) {                \
        return {(FourInts)(a.lower op b.lower), (FourInts)(a.upper op b.upper)};         \
    }                                                                                    \
    template <class Vector>                                                              \
    inline Ints operator op(TwoVectors<Vector> a, typename TwoVectors<Vector>::Lane b) { \
        return {(FourInts)(a.lower op b), (FourInts)(a.upper op b)};                     \
    }
VKFORMER_COMPARISON(<)
VKFORMER_COMPARISON(>)
VKFORMER_COMPARISON(>=)
VKFORMER_COMPARISON(==)
#undef VKFORMER_COMPARISON
#else
using Floats = float __attribute__((vector_size(32)));
using Ints = std::int32_t __attribute__((vector_size(32)));
using Words = std::uint32_t __attribute__((vector_size(32)));
#endif

template <class Vector>
inline Vector load(const void* from) {
#ifdef VKFORMER_HAS_NEON
    // By its parts: an object whose address is taken stays in memory.
    if constexpr (requires { Vector::upper; }) {
        using Half = decltype(Vector::lower);
        return {load<Half>(from), load<Half>(static_cast<const char*>(from) + sizeof(Half))};
    }
#endif
    Vector result;
    __builtin_memcpy(&result, from, sizeof(Vector));
    return result;
}

/// Zeros, one vector after the other: what is initialised as a whole, GCC clears by an instruction for strings, which takes 50 cycles.
template <class Vector, std::size_t count>
inline void clear(Vector (&vectors)[count]) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < count; ++i) vectors[i] = Vector{};
}
template <class Vector, std::size_t rows, std::size_t count>
inline void clear(Vector (&vectors)[rows][count]) {
#pragma GCC unroll 8
    for (std::size_t r = 0; r < rows; ++r) clear(vectors[r]);
}

/// Asks for what `bytes` bytes of a row that is read from front to back will be followed by. Bytes that no row has do no harm.
template <std::size_t bytes>
inline void prefetch(const void* from) {
    constexpr std::size_t kAhead =
        2048;  // with 2 KiB, not with 0.5 or 4, an Intel Xeon reads weights twice as fast as without
    for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const char*>(from) + kAhead + i);
}

#ifdef VKFORMER_HAS_NEON
inline void store(float* to, Floats numbers) {
    __builtin_memcpy(to, &numbers.lower, sizeof numbers.lower);
    __builtin_memcpy(to + kLanes / 2, &numbers.upper, sizeof numbers.upper);
}
#else
inline void store(float* to, Floats numbers) { __builtin_memcpy(to, &numbers, sizeof numbers); }
#endif

inline float sum_of(FourFloats fours) {
    const FourFloats twos = fours + __builtin_shufflevector(fours, fours, 2, 3, 2, 3);
    return twos[0] + twos[1];
}

#ifdef VKFORMER_HAS_NEON
inline Floats as_numbers(Ints integers) {
    return {__builtin_convertvector(integers.lower, FourFloats), __builtin_convertvector(integers.upper, FourFloats)};
}

/// Lanes of a where those of the mask are not 0.
inline Floats select(Ints mask, Floats a, Floats b) {
    return {mask.lower ? a.lower : b.lower, mask.upper ? a.upper : b.upper};
}

inline float sum_of(Floats v) { return sum_of(v.lower + v.upper); }

inline Words join(FourWords lower, FourWords upper) { return {lower, upper}; }
#else
inline Floats as_numbers(Ints integers) { return __builtin_convertvector(integers, Floats); }

/// Lanes of a where those of the mask are not 0.
inline Floats select(Ints mask, Floats a, Floats b) { return mask ? a : b; }

inline float sum_of(Floats v) {
    return sum_of(__builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7));
}

inline Words join(FourWords lower, FourWords upper) {
    return __builtin_shufflevector(lower, upper, 0, 1, 2, 3, 4, 5, 6, 7);
}
#endif

// As many lanes as the target has in a register, for functions of single numbers.
#ifdef VKFORMER_HAS_AVX512
using WideFloats = float __attribute__((vector_size(64)));
using WideInts = std::int32_t __attribute__((vector_size(64)));
using WideWords = std::uint32_t __attribute__((vector_size(64)));

inline void store(float* to, WideFloats numbers) { __builtin_memcpy(to, &numbers, sizeof numbers); }
inline WideFloats select(WideInts mask, WideFloats a, WideFloats b) { return mask ? a : b; }
inline float sum_of(WideFloats v) {
    return sum_of(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                  __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
}
#else
using WideFloats = Floats;
using WideInts = Ints;
using WideWords = Words;
#endif
constexpr std::size_t kWideLanes = sizeof(WideFloats) / sizeof(float);

inline Floats as_floats(Words bits) { return (Floats)bits; }

/// Unsigned bytes, each a lane.
#if defined(VKFORMER_HAS_AVX2)
inline Ints eight_bytes(const std::byte* from) {
    return (Ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}
#elif defined(VKFORMER_HAS_NEON)
inline Ints eight_bytes(const std::byte* from) {
    const uint16x8_t halves = vmovl_u8(load<uint8x8_t>(from));
    return {(FourInts)vmovl_u16(vget_low_u16(halves)), (FourInts)vmovl_high_u16(halves)};
}
#else
inline Ints eight_bytes(const std::byte* from) {
    Ints result;
    for (std::size_t i = 0; i < kLanes; ++i) result[i] = static_cast<std::int32_t>(from[i]);
    return result;
}
#endif

inline float bits_to_float(std::uint32_t bits) {
    float result;
    __builtin_memcpy(&result, &bits, sizeof result);
    return result;
}

/// 2^(e − 128) of a byte e, whose least two values give no normal numbers.
inline float power_at(const std::byte* from) {
    const auto exponent = static_cast<std::uint32_t>(*from);
    return bits_to_float(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
}

/// Row i of the result has element i of each row.
inline void transpose(FourInts* rows) {
    const FourInts a = __builtin_shufflevector(rows[0], rows[1], 0, 4, 2, 6);
    const FourInts b = __builtin_shufflevector(rows[0], rows[1], 1, 5, 3, 7);
    const FourInts c = __builtin_shufflevector(rows[2], rows[3], 0, 4, 2, 6);
    const FourInts d = __builtin_shufflevector(rows[2], rows[3], 1, 5, 3, 7);
    rows[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    rows[1] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    rows[2] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    rows[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

#ifdef VKFORMER_HAS_NEON
inline void transpose(Ints* rows) {
    FourInts quarters[2][2][4];
    for (std::size_t i = 0; i < 8; ++i) {
        quarters[0][i / 4][i % 4] = rows[i].lower;
        quarters[1][i / 4][i % 4] = rows[i].upper;
    }
    for (std::size_t half = 0; half < 2; ++half) {
        transpose(quarters[half][0]);
        transpose(quarters[half][1]);
        for (std::size_t i = 0; i < 4; ++i) rows[4 * half + i] = {quarters[half][0][i], quarters[half][1][i]};
    }
}
#else
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
#endif
