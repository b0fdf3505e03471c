// SPDX-License-Identifier: MIT
// PackedKernels of every format; see vectors.inl.
//
// The quantised formats are read as eight 32-bit words at a time, and a mask or a shift takes the same field out of each of them; x
// is laid out so that the field's element meets its x in the same lane. Nothing is shuffled inside the loops.
#include "cpu/vectors.inl"

#if defined(VKFORMER_HAS_AVX2)
inline float half_at(const std::byte* from) {
    std::uint16_t half;
    __builtin_memcpy(&half, from, sizeof half);
    return _cvtsh_ss(half);
}
#elif defined(VKFORMER_HAS_NEON)
inline float half_at(const std::byte* from) { return static_cast<float>(load<__fp16>(from)); }
#else
/// The exponent is moved by a product, which makes numbers of subnormal halves, too.
inline float half_at(const std::byte* from) {
    std::uint16_t half;
    __builtin_memcpy(&half, from, sizeof half);
    const std::uint32_t magnitude = (half & 0x7FFFu) << 13, sign = (half & 0x8000u) << 16;
    if (magnitude >= 0x0F800000u) return bits_to_float(sign | 0x70000000u | magnitude);  // infinite, or no number
    const float number = bits_to_float(magnitude) * 0x1p112f;
    return sign != 0 ? -number : number;
}
#endif

/// The first in lanes 0 … 3, the second in lanes 4 … 7.
inline Floats pair_of(float first, float second) {
    return Floats{first, first, first, first, second, second, second, second};
}

// ---- f16, bf16: a word holds two elements; x comes as the even ones of sixteen, then the odd ones ------------------------------

constexpr std::size_t kHalfBlock = 2 * kLanes;

inline std::size_t halves_arranged_size(std::size_t in) { return in; }

inline void arrange_halves(const float* x, std::size_t in, float* arranged) {
    const std::size_t whole = in / kHalfBlock * kHalfBlock;
    for (std::size_t i = 0; i < in; ++i) {
        const std::size_t in_block = i % kHalfBlock;
        arranged[i < whole ? i - in_block + in_block % 2 * kLanes + in_block / 2 : i] = x[i];
    }
}

struct Bf16 {
    static float at(const std::byte* from) {
        std::uint16_t upper;
        __builtin_memcpy(&upper, from, sizeof upper);
        return bits_to_float(static_cast<std::uint32_t>(upper) << 16);
    }
    static Floats even(Words words) { return as_floats(words << 16); }
    static Floats odd(Words words) { return as_floats(words & 0xFFFF0000u); }
};

struct F16 {
    static float at(const std::byte* from) { return half_at(from); }
    static Floats even(Words words) { return number(words << 16); }
    static Floats odd(Words words) { return number(words); }

private:
    /// The floats of the halves in the upper halves of the words. The exponent's bias grows by 112, of infinities twice that; a subnormal half
    /// becomes 2^−14 + itself before 2^−14 is taken away. (No product of subnormals: some processors take a hundred cycles.)
    static Floats number(Words words) {
        const Words magnitude = (words & 0x7FFF0000u) >> 3;
        const Words is_subnormal = (Words)(magnitude < 0x00800000u);
        const Words is_special = (Words)(magnitude >= 0x0F800000u);
        const Words shifted = magnitude + 0x38000000u + (is_special & 0x38000000u) + (is_subnormal & 0x00800000u);
        const Floats number = as_floats(shifted) - as_floats(is_subnormal & 0x38800000u);
        return as_floats((Words)number | (words & 0x80000000u));
    }
};

template <class Format>
float dot_halves(const std::byte* row, const float* x, std::size_t in) {
    Floats even = {}, odd = {};
    std::size_t i = 0;
    for (; i + kHalfBlock <= in; i += kHalfBlock) {
        const auto words = load<Words>(row + 2 * i);
        even += Format::even(words) * load<Floats>(x + i);
        odd += Format::odd(words) * load<Floats>(x + i + kLanes);
    }
    float sum = sum_of(even + odd);
    for (; i < in; ++i) sum += Format::at(row + 2 * i) * x[i];
    return sum;
}

template <class Format>
void unpack_halves(const std::byte* row, std::size_t in, float* out) {
    for (std::size_t i = 0; i < in; ++i) out[i] = Format::at(row + 2 * i);
}

#if defined(VKFORMER_HAS_AVX2) || defined(VKFORMER_HAS_NEON)
// The processor converts eight neighbours by itself: x stays as it is.
inline void copy_row(const float* x, std::size_t in, float* arranged) {
    __builtin_memcpy(arranged, x, in * sizeof(float));
}

inline Floats eight_halves(const std::byte* from) {
#ifdef VKFORMER_HAS_AVX2
    return (Floats)_mm256_cvtph_ps(load<__m128i>(from));
#else
    const auto halves = load<float16x8_t>(from);
    return {(FourFloats)vcvt_f32_f16(vget_low_f16(halves)), (FourFloats)vcvt_high_f32_f16(halves)};
#endif
}

inline float dot_f16(const std::byte* row, const float* x, std::size_t in) {
    constexpr std::size_t kStep = 4 * kLanes;  // four sums: a product need not wait for the one before
    Floats sums[4] = {};
    std::size_t i = 0;
    for (; i + kStep <= in; i += kStep) {
        prefetch<2 * kStep>(row + 2 * i);
        for (std::size_t k = 0; k < 4; ++k)
            sums[k] += eight_halves(row + 2 * (i + k * kLanes)) * load<Floats>(x + i + k * kLanes);
    }
    for (; i + kLanes <= in; i += kLanes) sums[0] += eight_halves(row + 2 * i) * load<Floats>(x + i);
    float sum = sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; i < in; ++i) sum += half_at(row + 2 * i) * x[i];
    return sum;
}

/// A weight becomes a float once for four rows of x, which lie `in` apart.
inline void dot_four_f16(const std::byte* row, const float* x, std::size_t in, float* sums) {
    constexpr std::size_t kStep = 2 * kLanes;
    Floats lanes[kFourRows][2];
    clear(lanes);
    std::size_t i = 0;
    for (; i + kStep <= in; i += kStep) {
        prefetch<2 * kStep>(row + 2 * i);
        const Floats first = eight_halves(row + 2 * i), second = eight_halves(row + 2 * (i + kLanes));
#pragma GCC unroll 4
        for (std::size_t r = 0; r < kFourRows; ++r) {
            lanes[r][0] += first * load<Floats>(x + r * in + i);
            lanes[r][1] += second * load<Floats>(x + r * in + i + kLanes);
        }
    }
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kFourRows; ++r) sums[r] = sum_of(lanes[r][0] + lanes[r][1]);
    for (; i < in; ++i) {
        const float w = half_at(row + 2 * i);
        for (std::size_t r = 0; r < kFourRows; ++r) sums[r] += w * x[r * in + i];
    }
}

inline void unpack_f16(const std::byte* row, std::size_t in, float* out) {
    std::size_t i = 0;
    for (; i + kLanes <= in; i += kLanes) store(out + i, eight_halves(row + 2 * i));
    for (; i < in; ++i) out[i] = half_at(row + 2 * i);
}

constexpr PackedKernels kF16 = {halves_arranged_size, copy_row, dot_f16, unpack_f16, dot_four_f16};
#else
constexpr PackedKernels kF16 = {halves_arranged_size, arrange_halves, dot_halves<F16>, unpack_halves<F16>};
#endif
constexpr PackedKernels kBf16 = {halves_arranged_size, arrange_halves, dot_halves<Bf16>, unpack_halves<Bf16>};

// ---- q8_0: 34 bytes, half d and 32 signed bytes; word l holds elements 4l … 4l + 3, so x comes as every fourth of 32, from 0, 1, 2, 3 -----

constexpr std::size_t kBlock = 32, kQ8Bytes = 34, kQ4Bytes = 18;

inline std::size_t q8_arranged_size(std::size_t in) { return in; }

inline void arrange_q8(const float* x, std::size_t in, float* arranged) {
    for (std::size_t i = 0; i < in; ++i) arranged[i / kBlock * kBlock + i % 4 * kLanes + i % kBlock / 4] = x[i];
}

inline float dot_q8(const std::byte* row, const float* x, std::size_t in) {
    Floats sum = {};
    for (; in != 0; in -= kBlock, row += kQ8Bytes, x += kBlock) {
        const auto words = load<Ints>(row + 2);
        Floats products = as_numbers((Ints)((Words)words << 24) >> 24) * load<Floats>(x);
        products += as_numbers((Ints)((Words)words << 16) >> 24) * load<Floats>(x + kLanes);
        products += as_numbers((Ints)((Words)words << 8) >> 24) * load<Floats>(x + 2 * kLanes);
        products += as_numbers(words >> 24) * load<Floats>(x + 3 * kLanes);
        sum += half_at(row) * products;
    }
    return sum_of(sum);
}

inline void unpack_q8(const std::byte* row, std::size_t in, float* out) {
    for (; in != 0; in -= kBlock, row += kQ8Bytes, out += kBlock) {
        const float d = half_at(row);
        for (std::size_t i = 0; i < kBlock; i += kLanes)
            store(out + i, d * as_numbers((Ints)((Words)eight_bytes(row + 2 + i) << 24) >> 24));
    }
}

constexpr PackedKernels kQ8_0 = {q8_arranged_size, arrange_q8, dot_q8, unpack_q8};

// ---- q4_0: 18 bytes, half d and 32 nibbles q, of elements i and i + 16 in byte i. Two blocks make eight words; nibble n of a word is
// q · 16^n, so that its x comes divided by that; and d · (q − 8) · x makes sums begin with −8 · x -----------------------------------------

constexpr std::size_t kPair = 2 * kBlock, kNibbles = 8, kPairFloats = kPair + kLanes;

inline std::size_t q4_arranged_size(std::size_t in) { return (in + kPair - 1) / kPair * kPairFloats; }

/// For each pair of blocks what the sums of its lanes begin with, then x by nibbles.
inline void arrange_q4(const float* x, std::size_t in, float* arranged) {
    for (; in != 0; in -= in < kPair ? in : kPair, x += kPair, arranged += kPairFloats) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            float sum = 0, power = 1;
            for (std::size_t n = 0; n < kNibbles; ++n) {
                const std::size_t element = lane / 4 * kBlock + lane % 4 * 4 + n / 2 + n % 2 * (kBlock / 2);
                const float value = element < in ? x[element] : 0.0f;
                sum += value;
                arranged[kLanes + n * kLanes + lane] =
                    n + 1 < kNibbles ? value * power : value;  // the last is shifted down
                power *= 0.0625f;
            }
            arranged[lane] = -8 * sum;
        }
    }
}

inline Floats q4_products(Words words, const float* x) {
    Floats sum = load<Floats>(x);
    sum += as_numbers((Ints)(words & 0x0000000Fu)) * load<Floats>(x + 1 * kLanes);
    sum += as_numbers((Ints)(words & 0x000000F0u)) * load<Floats>(x + 2 * kLanes);
    sum += as_numbers((Ints)(words & 0x00000F00u)) * load<Floats>(x + 3 * kLanes);
    sum += as_numbers((Ints)(words & 0x0000F000u)) * load<Floats>(x + 4 * kLanes);
    sum += as_numbers((Ints)(words & 0x000F0000u)) * load<Floats>(x + 5 * kLanes);
    sum += as_numbers((Ints)(words & 0x00F00000u)) * load<Floats>(x + 6 * kLanes);
    sum += as_numbers((Ints)(words & 0x0F000000u)) * load<Floats>(x + 7 * kLanes);
    return sum + as_numbers((Ints)(words >> 28)) * load<Floats>(x + 8 * kLanes);
}

/// The nibbles of two blocks.
inline Words words_of(const std::byte* first, const std::byte* second) {
    return join(load<FourWords>(first + 2), load<FourWords>(second + 2));
}

/// The halves that two blocks begin with, over the lanes of their nibbles.
#ifdef VKFORMER_HAS_AVX2
inline Floats scales_of(const std::byte* first, const std::byte* second) {
    const int both = load<std::uint16_t>(first) | load<std::uint16_t>(second) << 16;
    const __m256 two = _mm256_castps128_ps256(_mm_cvtph_ps(_mm_cvtsi32_si128(both)));
    return (Floats)_mm256_permutevar8x32_ps(two, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
}
#else
inline Floats scales_of(const std::byte* first, const std::byte* second) {
    return pair_of(half_at(first), half_at(second));
}
#endif

inline float dot_q4(const std::byte* row, const float* x, std::size_t in) {
    Floats sum = {};
    for (; in >= kPair; in -= kPair, row += 2 * kQ4Bytes, x += kPairFloats)
        sum += scales_of(row, row + kQ4Bytes) * q4_products(words_of(row, row + kQ4Bytes), x);
    // A single block is its own neighbour, whose x are zeros.
    if (in != 0) sum += pair_of(half_at(row), 0) * q4_products(words_of(row, row), x);
    return sum_of(sum);
}

inline void unpack_q4(const std::byte* row, std::size_t in, float* out) {
    for (; in != 0; in -= kBlock, row += kQ4Bytes, out += kBlock) {
        const float d = half_at(row);
        for (std::size_t i = 0; i < kBlock / 2; i += kLanes) {
            const Ints bytes = eight_bytes(row + 2 + i);
            store(out + i, d * as_numbers((bytes & 15) - 8));
            store(out + i + kBlock / 2, d * as_numbers((bytes >> 4) - 8));
        }
    }
}

constexpr PackedKernels kQ4_0 = {q4_arranged_size, arrange_q4, dot_q4, unpack_q4};

// ---- q4_k, q5_k, q6_k: blocks of 256, read as groups of 32 quants, each a byte of eight words; x comes by groups, every fourth of 32 from
// 0, 1, 2, 3, divided by what the byte's place makes of it ----------------------------------------------------------------------------------

constexpr std::size_t kBlockK = 256, kGroups = kBlockK / kBlock;
constexpr std::size_t kQ4KBytes = 144, kQ5KBytes = 176, kQ6KBytes = 210;

inline void arrange_group(const float* x, float* arranged) {
    constexpr float kPlaces[] = {1, 0x1p-8f, 0x1p-16f, 1};  // the last is shifted down
    for (std::size_t i = 0; i < kBlock; ++i) arranged[i % 4 * kLanes + i / 4] = x[i] * kPlaces[i % 4];
}

inline Floats group_products(Words quants, const float* x) {
    Floats sum = as_numbers((Ints)(quants & 0x000000FFu)) * load<Floats>(x);
    sum += as_numbers((Ints)(quants & 0x0000FF00u)) * load<Floats>(x + kLanes);
    sum += as_numbers((Ints)(quants & 0x00FF0000u)) * load<Floats>(x + 2 * kLanes);
    return sum + as_numbers((Ints)(quants >> 24)) * load<Floats>(x + 3 * kLanes);
}

// q4_k and q5_k: d · s · q − m · t, with s and t of a group. For x the sums of the groups come first: t · m is taken from them.

struct GroupScales {
    Floats s, t;
};

/// From 12 bytes: s and t of groups 0 … 3 are the lower 6 bits of the first and second four; the last four hold the lower 4 bits of
/// groups 4 … 7, whose upper 2 bits lie above the others.
inline GroupScales group_scales(const std::byte* from) {
    const auto a = load<std::uint32_t>(from), b = load<std::uint32_t>(from + 4), c = load<std::uint32_t>(from + 8);
    const std::uint32_t s[] = {a & 0x3F3F3F3Fu, (c & 0x0F0F0F0Fu) | (a >> 2 & 0x30303030u)};
    const std::uint32_t t[] = {b & 0x3F3F3F3Fu, (c >> 4 & 0x0F0F0F0Fu) | (b >> 2 & 0x30303030u)};
    return {as_numbers(eight_bytes(reinterpret_cast<const std::byte*>(s))),
            as_numbers(eight_bytes(reinterpret_cast<const std::byte*>(t)))};
}

constexpr std::size_t kBlockKFloats = kLanes + kBlockK;

inline std::size_t with_minimum_arranged_size(std::size_t in) { return in / kBlockK * kBlockKFloats; }

inline void arrange_with_minimum(const float* x, std::size_t in, float* arranged) {
    for (; in != 0; in -= kBlockK, arranged += kBlockKFloats)
        for (std::size_t g = 0; g < kGroups; ++g, x += kBlock) {
            arranged[g] = 0;
            for (std::size_t i = 0; i < kBlock; ++i) arranged[g] += x[i];
            arrange_group(x, arranged + kLanes + g * kBlock);
        }
}

struct Q4_K {
    static constexpr std::size_t bytes = kQ4KBytes, nibbles = 16;
    static Words fifth_bits(const std::byte*, std::size_t) { return Words{}; }
    static Ints fifth_bits(const std::byte*, std::size_t, std::size_t) { return Ints{}; }
};

struct Q5_K {
    static constexpr std::size_t bytes = kQ5KBytes, nibbles = 48;
    /// The bits above a group's nibbles: of all its quants, of eight from `i` on.
    static Words fifth_bits(const std::byte* block, std::size_t g) {
        return (load<Words>(block + 16) >> static_cast<std::uint32_t>(g) & 0x01010101u) << 4;
    }
    static Ints fifth_bits(const std::byte* block, std::size_t g, std::size_t i) {
        return (eight_bytes(block + 16 + i) >> static_cast<std::int32_t>(g) & 1) << 4;
    }
};

template <class Format>
float dot_with_minimum(const std::byte* block, const float* x, std::size_t in) {
    Floats sum = {};
    for (; in != 0; in -= kBlockK, block += Format::bytes, x += kBlockKFloats) {
        const GroupScales scales = group_scales(block + 4);
        Floats products = {};
        for (std::size_t g = 0; g < kGroups; g += 2) {
            const auto nibbles = load<Words>(block + Format::nibbles + g / 2 * kBlock);
            const Words first = (nibbles & 0x0F0F0F0Fu) | Format::fifth_bits(block, g);
            const Words second = (nibbles >> 4 & 0x0F0F0F0Fu) | Format::fifth_bits(block, g + 1);
            products += scales.s[g] * group_products(first, x + kLanes + g * kBlock);
            products += scales.s[g + 1] * group_products(second, x + kLanes + (g + 1) * kBlock);
        }
        sum += half_at(block) * products;
        sum -= half_at(block + 2) * (scales.t * load<Floats>(x));
    }
    return sum_of(sum);
}

template <class Format>
void unpack_with_minimum(const std::byte* block, std::size_t in, float* out) {
    for (; in != 0; in -= kBlockK, block += Format::bytes) {
        const GroupScales scales = group_scales(block + 4);
        for (std::size_t g = 0; g < kGroups; ++g, out += kBlock) {
            const float scale = half_at(block) * scales.s[g], minimum = half_at(block + 2) * scales.t[g];
            const std::byte* const nibbles = block + Format::nibbles + g / 2 * kBlock;
            for (std::size_t i = 0; i < kBlock; i += kLanes) {
                const Ints bytes = eight_bytes(nibbles + i), four = g % 2 == 0 ? bytes & 15 : bytes >> 4;
                store(out + i, scale * as_numbers(four | Format::fifth_bits(block, g, i)) - minimum);
            }
        }
    }
}

constexpr PackedKernels kQ4_K = {with_minimum_arranged_size, arrange_with_minimum, dot_with_minimum<Q4_K>,
                                 unpack_with_minimum<Q4_K>};
constexpr PackedKernels kQ5_K = {with_minimum_arranged_size, arrange_with_minimum, dot_with_minimum<Q5_K>,
                                 unpack_with_minimum<Q5_K>};

// For x of the other formats, each group begins with what its lanes do: `factor` · x.

constexpr std::size_t kGroupFloats = kLanes + kBlock;

inline std::size_t groups_arranged_size(std::size_t in) { return in / kBlock * kGroupFloats; }

template <int factor>
inline void arrange_groups(const float* x, std::size_t in, float* arranged) {
    for (; in != 0; in -= kBlock, x += kBlock, arranged += kGroupFloats) {
        for (std::size_t lane = 0; lane < kLanes; ++lane)
            arranged[lane] =
                static_cast<float>(factor) * ((x[4 * lane] + x[4 * lane + 1]) + (x[4 * lane + 2] + x[4 * lane + 3]));
        arrange_group(x, arranged + kLanes);
    }
}

// q6_k: d · s · (q − 32), with s of half a group.

constexpr std::size_t kQ6UpperBits = 128, kQ6Scales = 192, kQ6D = 208;

/// Where a group of q6_k has its bits: groups 0 and 2 of each four share bytes of nibbles, 1 and 3 too, and all four those of upper bits.
struct Q6Place {
    const std::byte *nibbles, *upper;
    std::uint32_t nibble_shift, upper_shift;
    Q6Place(const std::byte* block, std::size_t g)
        : nibbles(block + g / 4 * 2 * kBlock + g % 2 * kBlock),
          upper(block + kQ6UpperBits + g / 4 * kBlock),
          nibble_shift(static_cast<std::uint32_t>(g % 4 / 2 * 4)),
          upper_shift(static_cast<std::uint32_t>(g % 4 * 2)) {}
};

inline float dot_q6_k(const std::byte* block, const float* x, std::size_t in) {
    Floats sum = {};
    for (; in != 0; in -= kBlockK, block += kQ6KBytes) {
        Floats products = {};
        for (std::size_t g = 0; g < kGroups; ++g, x += kGroupFloats) {
            const Q6Place place(block, g);
            const Words nibbles = load<Words>(place.nibbles) >> place.nibble_shift & 0x0F0F0F0Fu;
            const Words upper = (load<Words>(place.upper) >> place.upper_shift & 0x03030303u) << 4;
            const auto s = [&](std::size_t i) { return static_cast<signed char>(block[kQ6Scales + 2 * g + i]); };
            products += pair_of(s(0), s(1)) * (load<Floats>(x) + group_products(nibbles | upper, x + kLanes));
        }
        sum += half_at(block + kQ6D) * products;
    }
    return sum_of(sum);
}

inline void unpack_q6_k(const std::byte* block, std::size_t in, float* out) {
    for (; in != 0; in -= kBlockK, block += kQ6KBytes)
        for (std::size_t g = 0; g < kGroups; ++g, out += kBlock) {
            const Q6Place place(block, g);
            for (std::size_t i = 0; i < kBlock; i += kLanes) {
                const Ints nibbles =
                    eight_bytes(place.nibbles + i) >> static_cast<std::int32_t>(place.nibble_shift) & 15;
                const Ints upper = (eight_bytes(place.upper + i) >> static_cast<std::int32_t>(place.upper_shift) & 3)
                                   << 4;
                const auto s = static_cast<signed char>(block[kQ6Scales + 2 * g + i / 16]);
                store(out + i, half_at(block + kQ6D) * static_cast<float>(s) * as_numbers((nibbles | upper) - 32));
            }
        }
}

constexpr PackedKernels kQ6_K = {groups_arranged_size, arrange_groups<-32>, dot_q6_k, unpack_q6_k};

// ---- any format of groups: group(block, g) gives the quants as bytes of words, which are `offset` too large, what is multiplied by them and,
// with has_minimum, what is added. Products of a scale and a quant are exact but for iq4_xs, which adds nothing.

/// 32 elements; lanes 0 … 3 and 4 … 7 belong to 16 each.
struct Group {
    Words quants;
    Floats scale, addend = {};
};

template <class Format>
float dot_groups(const std::byte* block, const float* x, std::size_t in) {
    Floats sum = {};
    for (; in != 0; in -= Format::elements, block += Format::bytes)
        for (std::size_t g = 0; g < Format::elements / kBlock; ++g, x += kGroupFloats) {
            const Group group = Format::group(block, g);
            sum += group.scale * group_products(group.quants, x + kLanes);
            if constexpr (Format::has_minimum)
                sum += group.addend * load<Floats>(x);
            else
                sum -= static_cast<float>(Format::offset) * group.scale * load<Floats>(x);
        }
    return sum_of(sum);
}

template <class Format>
void unpack_groups(const std::byte* block, std::size_t in, float* out) {
    for (; in != 0; in -= Format::elements, block += Format::bytes)
        for (std::size_t g = 0; g < Format::elements / kBlock; ++g, out += kBlock) {
            const Group group = Format::group(block, g);
            std::byte bytes[kBlock];
            __builtin_memcpy(bytes, &group.quants, sizeof bytes);
            for (std::size_t i = 0; i < kBlock; i += kLanes) {
                Floats numbers = group.scale[i / 16 * 4] * as_numbers(eight_bytes(bytes + i) - Format::offset);
                if constexpr (Format::has_minimum) numbers += group.addend[i / 16 * 4];
                store(out + i, numbers);
            }
        }
}

template <class Format>
constexpr PackedKernels kGroupKernels = {groups_arranged_size, arrange_groups<1>, dot_groups<Format>,
                                         unpack_groups<Format>};

inline Floats in_all_lanes(float number) { return pair_of(number, number); }

/// Sixteen bytes of nibbles, the lower ones first: a byte each.
inline Words nibble_bytes(const std::byte* from) {
    const auto packed = load<FourWords>(from);
    return join(packed & 0x0F0F0F0Fu, packed >> 4 & 0x0F0F0F0Fu);
}

/// Bit i of the bits as 16 in byte i: four bits times ones that are 7 places apart give a bit to each byte.
inline Words fifth_bits(std::uint32_t bits) {
    return (((Words{} + bits) >> Words{0, 4, 8, 12, 16, 20, 24, 28} & 15u) * 0x00204081u & 0x01010101u) << 4;
}

/// What the nibbles in bytes stand for.
inline Words table_bytes(Words nibbles, const std::int8_t* numbers) {
#if defined(VKFORMER_HAS_AVX2)
    return (Words)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load<__m128i>(numbers)), (__m256i)nibbles);
#elif defined(VKFORMER_HAS_NEON)
    const auto table = load<uint8x16_t>(numbers);
    return Words{(FourWords)vqtbl1q_u8(table, (uint8x16_t)nibbles.lower),
                 (FourWords)vqtbl1q_u8(table, (uint8x16_t)nibbles.upper)};
#else
    std::uint8_t bytes[kBlock];
    __builtin_memcpy(bytes, &nibbles, sizeof bytes);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(numbers[byte]);
    return load<Words>(bytes);
#endif
}

/// 128 + a number with a sign.
inline Words iq4_bytes(Words nibbles) { return table_bytes(nibbles, kIq4Values.data()) ^ 0x80808080u; }

template <NibbleFormat format>
struct Nibbles {
    static constexpr std::size_t bytes = format.bytes(), elements = kBlock;
    static constexpr std::int32_t offset = format.is_signed() ? 128 : format.offset();
    static constexpr bool has_minimum = format.has_minimum;
    static Group group(const std::byte* block, std::size_t) {
        Group group = {nibble_bytes(block + format.nibbles()),
                       in_all_lanes(format.has_exponent ? power_at(block) : half_at(block))};
        if constexpr (format.has_fifth_bits)
            group.quants |= fifth_bits(load<std::uint32_t>(block + format.fifth_bits()));
        if constexpr (format.has_exponent)
            group.quants = table_bytes(group.quants, kMxfp4Values.data());
        else if constexpr (format.has_table)
            group.quants = iq4_bytes(group.quants);
        if constexpr (has_minimum) group.addend = in_all_lanes(half_at(block + NibbleFormat::minimum()));
        return group;
    }
};

constexpr auto kQ4_1 = kGroupKernels<Nibbles<kQ4_1Format>>;
constexpr auto kQ5_0 = kGroupKernels<Nibbles<kQ5_0Format>>;
constexpr auto kQ5_1 = kGroupKernels<Nibbles<kQ5_1Format>>;
constexpr auto kIq4_NL = kGroupKernels<Nibbles<kIq4NlFormat>>;
constexpr auto kMxfp4 = kGroupKernels<Nibbles<kMxfp4Format>>;

/// d · (s − 32) · table[q], s of a group in 4 and 2 bits.
struct Iq4_XS {
    static constexpr std::size_t bytes = 136, elements = kBlockK;
    static constexpr std::int32_t offset = 128;
    static constexpr bool has_minimum = false;
    static Group group(const std::byte* block, std::size_t g) {
        const std::uint32_t lower = load<std::uint32_t>(block + 4) >> (4 * g) & 15u;
        const std::uint32_t upper = static_cast<std::uint32_t>(load<std::uint16_t>(block + 2)) >> (2 * g) & 3u;
        const auto s = static_cast<float>(static_cast<std::int32_t>(lower | upper << 4) - 32);
        return {iq4_bytes(nibble_bytes(block + 8 + 16 * g)), in_all_lanes(half_at(block) * s)};
    }
};

/// Four groups' two bits of each quant share bytes.
inline Words two_bits(const std::byte* from, std::size_t g) {
    return load<Words>(from + g / 4 * kBlock) >> static_cast<std::uint32_t>(g % 4 * 2) & 0x03030303u;
}

/// d · s · q − m · t, s and t of half a group.
struct Q2_K {
    static constexpr std::size_t bytes = 84, elements = kBlockK;
    static constexpr std::int32_t offset = 0;
    static constexpr bool has_minimum = true;
    static Group group(const std::byte* block, std::size_t g) {
        const auto both = [&](std::size_t i) { return static_cast<unsigned char>(block[2 * g + i]); };
        const auto s = [&](std::size_t i) { return static_cast<float>(both(i) & 15); };
        const auto t = [&](std::size_t i) { return static_cast<float>(both(i) >> 4); };
        return {two_bits(block + 16, g), half_at(block + 80) * pair_of(s(0), s(1)),
                -(half_at(block + 82) * pair_of(t(0), t(1)))};
    }
};

/// d · (s − 32) · (q − 4), s of half a group.
struct Q3_K {
    static constexpr std::size_t bytes = 110, elements = kBlockK;
    static constexpr std::int32_t offset = 4;
    static constexpr bool has_minimum = false;
    static Group group(const std::byte* block, std::size_t g) {
        const auto s = [&](std::size_t i) {  // of sixteen
            const int lower = static_cast<unsigned char>(block[96 + i % 8]) >> (i / 8 * 4) & 15;
            const int upper = static_cast<unsigned char>(block[104 + i % 4]) >> (i / 4 * 2) & 3;
            return static_cast<float>((lower | upper << 4) - 32);
        };
        const Words third = (load<Words>(block) >> static_cast<std::uint32_t>(g) & 0x01010101u) << 2;
        return {two_bits(block + 32, g) | third, half_at(block + 108) * pair_of(s(2 * g), s(2 * g + 1))};
    }
};

constexpr auto kIq4_XS = kGroupKernels<Iq4_XS>;
constexpr auto kQ2_K = kGroupKernels<Q2_K>;
constexpr auto kQ3_K = kGroupKernels<Q3_K>;

/// Null: the format has none.
inline const PackedKernels* packed_kernels_of(DType dtype) noexcept {
    switch (dtype) {
    case DType::f16: return &kF16;
    case DType::bf16: return &kBf16;
    case DType::q8_0: return &kQ8_0;
    case DType::q4_0: return &kQ4_0;
    case DType::q4_1: return &kQ4_1;
    case DType::q5_0: return &kQ5_0;
    case DType::q5_1: return &kQ5_1;
    case DType::iq4_nl: return &kIq4_NL;
    case DType::mxfp4: return &kMxfp4;
    case DType::iq4_xs: return &kIq4_XS;
    case DType::q2_k: return &kQ2_K;
    case DType::q3_k: return &kQ3_K;
    case DType::q4_k: return &kQ4_K;
    case DType::q5_k: return &kQ5_K;
    case DType::q6_k: return &kQ6_K;
    default: return nullptr;
    }
}
