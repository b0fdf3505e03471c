// SPDX-License-Identifier: MIT
// Included by packed_dot.cpp and packed_dot_avx2.cpp, which differ in the compiler's target, each into a namespace of its own. GCC's and
// clang's vectors of eight lanes become whatever the target has. No function of the standard library is called: a copy of one
// that was compiled for the wider target must not end up in the rest of the program.
//
// The quantised formats are read as eight 32-bit words at a time, and a mask or a shift takes the same field out of each of them; x
// is laid out so that the field's element meets its x in the same lane. Nothing is shuffled inside the loops.

using Floats = float __attribute__((vector_size(32)));
using Ints = std::int32_t __attribute__((vector_size(32)));
using Words = std::uint32_t __attribute__((vector_size(32)));
using Bytes = unsigned char __attribute__((vector_size(16)));
using FourFloats = float __attribute__((vector_size(16)));
using FourWords = std::uint32_t __attribute__((vector_size(16)));

constexpr std::size_t kLanes = 8;

template <class Vector>
inline Vector load(const void* from) {
    Vector result;
    __builtin_memcpy(&result, from, sizeof(Vector));
    return result;
}

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

#ifdef VKFORMER_HAS_F16C
inline float half_at(const std::byte* from) {
    std::uint16_t half;
    __builtin_memcpy(&half, from, sizeof half);
    return _cvtsh_ss(half);
}
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

// ---- float32: tiles of rows of x and rows of w, whose sums stay in registers -----------------------------------------------------------

// Twelve sums, three rows of w and a vector of x are sixteen registers of AVX2, and half of NEON's.
#if defined(VKFORMER_HAS_F16C) || defined(__aarch64__)
constexpr std::size_t kTileRows = 4, kTileColumns = 3;
#else
constexpr std::size_t kTileRows = 2, kTileColumns = 2;
#endif

template <std::size_t rows, std::size_t columns>
inline void add_tile(const ProductOperands& o, std::size_t row, std::size_t column) {
    const float* const x = o.x + row * o.x_stride;
    const float* const w = o.w + column * o.w_stride;
    Floats sums[rows][columns] = {};
    std::size_t i = 0;
    for (; i + kLanes <= o.depth; i += kLanes) {
        Floats ws[columns];
#pragma GCC unroll 4
        for (std::size_t c = 0; c < columns; ++c) ws[c] = load<Floats>(w + c * o.w_stride + i);
#pragma GCC unroll 4
        for (std::size_t r = 0; r < rows; ++r) {
            const auto xs = load<Floats>(x + r * o.x_stride + i);
#pragma GCC unroll 4
            for (std::size_t c = 0; c < columns; ++c) sums[r][c] += xs * ws[c];
        }
    }
#pragma GCC unroll 4
    for (std::size_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
        for (std::size_t c = 0; c < columns; ++c) {
            float sum = sum_of(sums[r][c]);
            for (std::size_t k = i; k < o.depth; ++k) sum += x[r * o.x_stride + k] * w[c * o.w_stride + k];
            o.y[(row + r) * o.y_stride + column + c] += sum;
        }
}

template <std::size_t rows>
inline void add_row_of_tiles(const ProductOperands& o, std::size_t row) {
    std::size_t column = 0;
    for (; column + kTileColumns <= o.columns; column += kTileColumns) add_tile<rows, kTileColumns>(o, row, column);
    for (; column < o.columns; ++column) add_tile<rows, 1>(o, row, column);
}

inline void add_products(const ProductOperands& o) {
    std::size_t row = 0;
    for (; row + kTileRows <= o.rows; row += kTileRows) add_row_of_tiles<kTileRows>(o, row);
    for (; row < o.rows; ++row) add_row_of_tiles<1>(o, row);
}

/// y[0 … vectors · 8 − 1] += Σ_j scales[j] · w[j]
template <std::size_t vectors>
inline void add_scaled_columns(const float* scales, std::size_t count, const float* w, std::size_t w_stride, float* y) {
    Floats sums[vectors];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < vectors; ++v) sums[v] = load<Floats>(y + v * kLanes);
    for (std::size_t j = 0; j < count; ++j, w += w_stride)
#pragma GCC unroll 8
        for (std::size_t v = 0; v < vectors; ++v) sums[v] += scales[j] * load<Floats>(w + v * kLanes);
    __builtin_memcpy(y, sums, sizeof sums);
}

inline void add_scaled_rows(const float* scales, std::size_t count, const float* w, std::size_t w_stride,
                            std::size_t width, float* y) {
    std::size_t i = 0;
    for (; i + 8 * kLanes <= width; i += 8 * kLanes) add_scaled_columns<8>(scales, count, w + i, w_stride, y + i);
    for (; i + kLanes <= width; i += kLanes) add_scaled_columns<1>(scales, count, w + i, w_stride, y + i);
    for (; i < width; ++i)
        for (std::size_t j = 0; j < count; ++j) y[i] += scales[j] * w[j * w_stride + i];
}

constexpr FloatKernels kFloats = {add_products, add_scaled_rows};

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
    /// Of the halves in the upper halves of the words. The exponent's bias grows by 112, of infinities twice that; a subnormal half
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

#ifdef VKFORMER_HAS_F16C
// The processor converts eight neighbours by itself: x stays as it is.
inline void copy_row(const float* x, std::size_t in, float* arranged) {
    __builtin_memcpy(arranged, x, in * sizeof(float));
}

inline Floats eight_halves(const std::byte* from) { return (Floats)_mm256_cvtph_ps(load<__m128i>(from)); }

inline float dot_f16(const std::byte* row, const float* x, std::size_t in) {
    constexpr std::size_t kStep = 4 * kLanes;  // four sums: a product need not wait for the one before
    Floats sums[4] = {};
    std::size_t i = 0;
    for (; i + kStep <= in; i += kStep)
        for (std::size_t k = 0; k < 4; ++k)
            sums[k] += eight_halves(row + 2 * (i + k * kLanes)) * load<Floats>(x + i + k * kLanes);
    for (; i + kLanes <= in; i += kLanes) sums[0] += eight_halves(row + 2 * i) * load<Floats>(x + i);
    float sum = sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; i < in; ++i) sum += half_at(row + 2 * i) * x[i];
    return sum;
}

inline void unpack_f16(const std::byte* row, std::size_t in, float* out) {
    std::size_t i = 0;
    for (; i + kLanes <= in; i += kLanes) {
        const Floats numbers = eight_halves(row + 2 * i);
        __builtin_memcpy(out + i, &numbers, sizeof numbers);
    }
    for (; i < in; ++i) out[i] = half_at(row + 2 * i);
}

constexpr PackedKernels kF16 = {halves_arranged_size, copy_row, dot_f16, unpack_f16};
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
        for (std::size_t i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(static_cast<signed char>(row[2 + i]));
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
    return __builtin_shufflevector(load<FourWords>(first + 2), load<FourWords>(second + 2), 0, 1, 2, 3, 4, 5, 6, 7);
}

inline float dot_q4(const std::byte* row, const float* x, std::size_t in) {
    Floats sum = {};
    for (; in >= kPair; in -= kPair, row += 2 * kQ4Bytes, x += kPairFloats)
        sum += pair_of(half_at(row), half_at(row + kQ4Bytes)) * q4_products(words_of(row, row + kQ4Bytes), x);
    // A single block is its own neighbour, whose x are zeros.
    if (in != 0) sum += pair_of(half_at(row), 0) * q4_products(words_of(row, row), x);
    return sum_of(sum);
}

inline void unpack_q4(const std::byte* row, std::size_t in, float* out) {
    for (; in != 0; in -= kBlock, row += kQ4Bytes, out += kBlock) {
        const auto bytes = load<Bytes>(row + 2);
        const Bytes first = (bytes & 15) - 8, second = (bytes >> 4) - 8;
        signed char quants[kBlock];
        __builtin_memcpy(quants, &first, sizeof first);
        __builtin_memcpy(quants + kBlock / 2, &second, sizeof second);
        const float d = half_at(row);
        for (std::size_t i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(quants[i]);
    }
}

constexpr PackedKernels kQ4_0 = {q4_arranged_size, arrange_q4, dot_q4, unpack_q4};
