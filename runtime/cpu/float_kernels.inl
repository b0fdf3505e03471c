// SPDX-License-Identifier: MIT
// FloatKernels; see vectors.inl.
#include "cpu/vectors.inl"

#ifndef VKFORMER_HAS_AVX512  // which takes AVX2's
/// y[0 … vectors · 8 − 1] += Σ_j scales[j] · w[j]
template <std::size_t vectors>
inline void add_scaled_columns(const float* scales, std::size_t count, const float* w, std::size_t w_stride, float* y) {
    Floats sums[vectors];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < vectors; ++v) sums[v] = load<Floats>(y + v * kLanes);
    for (std::size_t j = 0; j < count; ++j, w += w_stride)
#pragma GCC unroll 8
        for (std::size_t v = 0; v < vectors; ++v) sums[v] += scales[j] * load<Floats>(w + v * kLanes);
#pragma GCC unroll 8
    for (std::size_t v = 0; v < vectors; ++v) store(y + v * kLanes, sums[v]);
}

inline void add_scaled_rows(const float* scales, std::size_t count, const float* w, std::size_t w_stride,
                            std::size_t width, float* y) {
    std::size_t i = 0;
    for (; i + 8 * kLanes <= width; i += 8 * kLanes) add_scaled_columns<8>(scales, count, w + i, w_stride, y + i);
    for (; i + 4 * kLanes <= width; i += 4 * kLanes) add_scaled_columns<4>(scales, count, w + i, w_stride, y + i);
    for (; i + 2 * kLanes <= width; i += 2 * kLanes) add_scaled_columns<2>(scales, count, w + i, w_stride, y + i);
    for (; i + kLanes <= width; i += kLanes) add_scaled_columns<1>(scales, count, w + i, w_stride, y + i);
    for (; i < width; ++i)
        for (std::size_t j = 0; j < count; ++j) y[i] += scales[j] * w[j * w_stride + i];
}
#endif

// ---- functions of single numbers -----------------------------------------------------------------------------------------------

/// x = n · ln 2 + r, |r| ≤ ln 2 / 2, with ln 2 in two parts (Cody and Waite 1980), and e^r by its Taylor polynomial of degree 7, whose next
/// term is below 6e-9.
struct ExpParts {
    WideInts n;
    WideFloats exp_r;
};

inline ExpParts exp_parts(WideFloats x) {
    constexpr float kLn2Upper = 0.693359375f, kLn2Lower = -2.12194440e-4f, kRounds = 0x1.8p23f;
    const WideFloats shifted = x * 1.44269504f + kRounds;  // its lowest bits are n
    const WideFloats n = shifted - kRounds;
    const WideFloats r = (x - n * kLn2Upper) - n * kLn2Lower;
    WideFloats p = r * (1.0f / 5040) + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1;
    p = p * r + 1;
    return {(WideInts)shifted - static_cast<std::int32_t>(0x4B400000), p};
}

/// e^x to 2 units in the last place, 0 below the least number, ∞ above the largest, NaN of NaN.
inline WideFloats exp_of(WideFloats x) {
    x = select(x > 89.0f, WideFloats{} + 89, x);
    x = select(x < -104.0f, WideFloats{} - 104, x);
    // 2^n may be no number where e^x is one: two factors.
    const ExpParts parts = exp_parts(x);
    const WideInts half = parts.n >> 1;
    return parts.exp_r * (WideFloats)((half + 127) << 23) * (WideFloats)((parts.n - half + 127) << 23);
}

/// The same of x ≤ 0, and 0 where e^x is below the least normal number.
inline WideFloats exp_of_negative(WideFloats x) {
    const ExpParts parts = exp_parts(x);
    return select(x < -87.3f, WideFloats{}, parts.exp_r * (WideFloats)((parts.n + 127) << 23));
}

/// Φ(x) = erfc(−x / √2) / 2. With z = |x| / √2 and t = (z − 2) / (z + 2), a change of variable as in Schonfelder 1978, erfc(z) e^(z²) is
/// (1 − t) P(t); P, of degree 10, meets it in the zeros of a Chebyshev polynomial, and errs by less than 4e-7 of it. Where Φ is small, z²,
/// rounded, makes an error of z² · 2^−24.
inline WideFloats normal_cdf(WideFloats x) {
    const WideFloats magnitude = (WideFloats)((WideInts)x & 0x7FFFFFFF) * 0.707106781f;
    const WideFloats z = select(magnitude > 14.0f, WideFloats{} + 14, magnitude);  // e^(−z²) is 0 there
    const WideFloats t = (z - 2) / (z + 2);
    WideFloats p = t * 2.21442078e-5f + 1.83821812e-5f;
    p = p * t - 1.52359542e-4f;
    p = p * t - 2.15520005e-4f;
    p = p * t + 7.66923535e-4f;
    p = p * t + 1.62186648e-3f;
    p = p * t - 5.37665561e-3f;
    p = p * t - 9.11087450e-3f;
    p = p * t + 6.98679760e-2f;
    p = p * t - 1.71790153e-1f;
    p = p * t + 2.55395681e-1f;
    const WideFloats tail = 0.5f * (1 - t) * p * exp_of(-z * z);
    return select(x < 0.0f, tail, 1 - tail);
}

inline WideFloats sigmoid(WideFloats x) { return 1 / (1 + exp_of(-x)); }

// See activate.hpp for the formulas; 1/2 + tanh(u)/2 is sigmoid(2u).
struct Relu {
    static WideFloats of(WideFloats x) { return select(x < 0.0f, WideFloats{}, x); }
};
struct ReluSquared {
    static WideFloats of(WideFloats x) { return Relu::of(x) * Relu::of(x); }
};
struct GeluErf {
    static WideFloats of(WideFloats x) { return x * normal_cdf(x); }
};
struct GeluTanh {
    static WideFloats of(WideFloats x) { return x / (1 + exp_of(x * (-1.59576912f - 0.0713548163f * (x * x)))); }
};
struct Silu {
    static WideFloats of(WideFloats x) { return x / (1 + exp_of(-x)); }
};
struct Sigmoid {
    static WideFloats of(WideFloats x) { return sigmoid(x); }
};
struct GeluQuick {
    static WideFloats of(WideFloats x) { return x / (1 + exp_of(-1.702f * x)); }
};

template <class Function>
inline void apply(const float* x, std::size_t count, float* y) {
    std::size_t i = 0;
    for (; i + kWideLanes <= count; i += kWideLanes) store(y + i, Function::of(load<WideFloats>(x + i)));
    if (i == count) return;
    WideFloats rest = {};
    __builtin_memcpy(&rest, x + i, (count - i) * sizeof(float));
    rest = Function::of(rest);
    __builtin_memcpy(y + i, &rest, (count - i) * sizeof(float));
}

inline bool activate(graph::Activation activation, const float* x, std::size_t count, float* y) {
    switch (activation) {
    case graph::Activation::relu: apply<Relu>(x, count, y); return true;
    case graph::Activation::gelu_erf: apply<GeluErf>(x, count, y); return true;
    case graph::Activation::gelu_tanh: apply<GeluTanh>(x, count, y); return true;
    case graph::Activation::silu: apply<Silu>(x, count, y); return true;
    case graph::Activation::sigmoid: apply<Sigmoid>(x, count, y); return true;
    case graph::Activation::gelu_quick: apply<GeluQuick>(x, count, y); return true;
    case graph::Activation::relu_squared: apply<ReluSquared>(x, count, y); return true;
    default: return false;
    }
}

inline float exponentiate(float* scores, std::size_t count, float max) {
    WideFloats sums = {};
    float rest_sum = 0;
    std::size_t i = 0;
    for (; i + kWideLanes <= count; i += kWideLanes) {
        const WideFloats terms = exp_of_negative(load<WideFloats>(scores + i) - max);
        store(scores + i, terms);
        sums += terms;
    }
    if (i < count) {
        WideFloats rest = {};
        __builtin_memcpy(&rest, scores + i, (count - i) * sizeof(float));
        rest = exp_of_negative(rest - max);
        __builtin_memcpy(scores + i, &rest, (count - i) * sizeof(float));
        for (std::size_t lane = 0; lane < count - i; ++lane) rest_sum += rest[lane];
    }
    return sum_of(sums) + rest_sum;
}

inline float max_of(const float* x, std::size_t count) {
    WideFloats largest = WideFloats{} - __builtin_inff();
    std::size_t i = 0;
    for (; i + kWideLanes <= count; i += kWideLanes) {
        const auto numbers = load<WideFloats>(x + i);
        largest = select(numbers > largest, numbers, largest);
    }
    float result = -__builtin_inff();
    for (std::size_t lane = 0; lane < kWideLanes; ++lane) result = largest[lane] > result ? largest[lane] : result;
    for (; i < count; ++i) result = x[i] > result ? x[i] : result;
    return result;
}

/// To the nearest bfloat16, of two that are as near the even one, as a float.
inline WideFloats nearest_bfloat(WideFloats x) {
    constexpr std::uint32_t kUpper = 0xFFFF0000, kQuiet = 0x400000;
    const auto bits = (WideWords)x;
    const WideWords rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
    return select(x == x, (WideFloats)(rounded & kUpper), (WideFloats)((bits | kQuiet) & kUpper));
}

inline void round_to_bfloats(float* x, std::size_t count) {
    std::size_t i = 0;
    for (; i + kWideLanes <= count; i += kWideLanes) store(x + i, nearest_bfloat(load<WideFloats>(x + i)));
    if (i == count) return;
    WideFloats rest = {};
    __builtin_memcpy(&rest, x + i, (count - i) * sizeof(float));
    rest = nearest_bfloat(rest);
    __builtin_memcpy(x + i, &rest, (count - i) * sizeof(float));
}

/// 2^(score / ln 2 − power), no more than a little over 1, to 2.6e-6 of it, and 0 where that is below the least normal number: 2^r for
/// |r| ≤ 1/2 by the polynomial of degree 4 whose largest relative error is the least.
inline WideFloats weight_of(WideFloats score, float power) {
    constexpr float kRounds = 0x1.8p23f;
    const WideFloats x = score * 1.44269504f - power;
    const WideFloats shifted = x + kRounds;  // its lowest bits are the exponent
    const WideFloats r = x - (shifted - kRounds);
    WideFloats p = r * 0.00957010221f + 0.0559178628f;
    p = p * r + 0.240247443f;
    p = p * r + 0.693121791f;
    p = p * r + 0.999999285f;
    return select(x < -126.0f, WideFloats{}, (WideFloats)((WideWords)p + ((WideWords)shifted << 23)));
}

/// The nearest bfloat16 of what is not negative, of two that are as near the larger one.
inline WideFloats rounded_weight(WideFloats weight) {
    return (WideFloats)(((WideWords)weight + 0x8000u) & 0xFFFF0000u);
}

inline float exponentiate_to_bfloats(float* scores, std::size_t count, float power) {
    WideFloats sums = {};
    float rest_sum = 0;
    std::size_t i = 0;
    for (; i + kWideLanes <= count; i += kWideLanes) {
        const WideFloats weights = weight_of(load<WideFloats>(scores + i), power);
        store(scores + i, rounded_weight(weights));
        sums += weights;
    }
    if (i < count) {
        WideFloats rest = {};
        __builtin_memcpy(&rest, scores + i, (count - i) * sizeof(float));
        rest = weight_of(rest, power);
        for (std::size_t lane = 0; lane < count - i; ++lane) rest_sum += rest[lane];
        rest = rounded_weight(rest);
        __builtin_memcpy(scores + i, &rest, (count - i) * sizeof(float));
    }
    return sum_of(sums) + rest_sum;
}

#ifndef VKFORMER_HAS_AVX512
// ---- states: a matrix for each head ----------------------------------------------------------------------------------------------

/// Some columns of the state, in one walk that adds up what they hold for key and query, and one that corrects them.
template <std::size_t vectors>
inline void correct_columns(const StateStep& o, std::size_t column) {
    Floats for_key[vectors] = {}, for_query[vectors] = {};
    const float* row = o.state + column;
    for (std::size_t i = 0; i < o.key_dim; ++i, row += o.value_dim)
#pragma GCC unroll 4
        for (std::size_t v = 0; v < vectors; ++v) {
            const auto s = load<Floats>(row + v * kLanes);
            for_key[v] += s * o.key[i];
            for_query[v] += s * o.query[i];
        }
    Floats delta[vectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) {
        delta[v] = (load<Floats>(o.value + column + v * kLanes) - for_key[v] * o.alpha) * o.beta;
        store(o.y + column + v * kLanes, for_query[v] * o.alpha + delta[v] * o.product);
    }
    float* to = o.state + column;
    for (std::size_t i = 0; i < o.key_dim; ++i, to += o.value_dim)
#pragma GCC unroll 4
        for (std::size_t v = 0; v < vectors; ++v)
            store(to + v * kLanes, load<Floats>(to + v * kLanes) * o.alpha + delta[v] * o.key[i]);
}

inline void correct_state(const StateStep& o) {
    std::size_t column = 0;
    for (; column + 4 * kLanes <= o.value_dim; column += 4 * kLanes) correct_columns<4>(o, column);
    for (; column + kLanes <= o.value_dim; column += kLanes) correct_columns<1>(o, column);
    for (; column < o.value_dim; ++column) {
        float for_key = 0, for_query = 0;
        for (std::size_t i = 0; i < o.key_dim; ++i) {
            const float s = o.state[i * o.value_dim + column];
            for_key += s * o.key[i];
            for_query += s * o.query[i];
        }
        const float delta = o.beta * (o.value[column] - o.alpha * for_key);
        o.y[column] = o.alpha * for_query + o.product * delta;
        for (std::size_t i = 0; i < o.key_dim; ++i) {
            float& s = o.state[i * o.value_dim + column];
            s = o.alpha * s + o.key[i] * delta;
        }
    }
}

/// Some columns of the state, in one walk.
template <std::size_t vectors>
inline void add_to_columns(const StateStep& o, std::size_t column) {
    Floats added[vectors], for_query[vectors] = {};
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) added[v] = load<Floats>(o.value + column + v * kLanes) * o.beta;
    float* row = o.state + column;
    for (std::size_t i = 0; i < o.key_dim; ++i, row += o.value_dim)
#pragma GCC unroll 4
        for (std::size_t v = 0; v < vectors; ++v) {
            const Floats s = load<Floats>(row + v * kLanes) * o.alpha + added[v] * o.key[i];
            store(row + v * kLanes, s);
            for_query[v] += s * o.query[i];
        }
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) store(o.y + column + v * kLanes, for_query[v]);
}

inline void add_to_state(const StateStep& o) {
    std::size_t column = 0;
    for (; column + 4 * kLanes <= o.value_dim; column += 4 * kLanes) add_to_columns<4>(o, column);
    for (; column + kLanes <= o.value_dim; column += kLanes) add_to_columns<1>(o, column);
    for (; column < o.value_dim; ++column) {
        float sum = 0;
        for (std::size_t i = 0; i < o.key_dim; ++i) {
            float& s = o.state[i * o.value_dim + column];
            s = o.alpha * s + o.beta * o.value[column] * o.key[i];
            sum += s * o.query[i];
        }
        o.y[column] = sum;
    }
}

constexpr FloatKernels kFloats = {add_scaled_rows,         activate,         max_of,        exponentiate,
                                  exponentiate_to_bfloats, round_to_bfloats, correct_state, add_to_state};
#endif
