// SPDX-License-Identifier: MIT
// The activations that linear and activate share; `activation` is a constant of lib/activation.h.
// Every exp() has an argument ≤ 0, so nothing overflows; no tanh(), which some drivers compute as a quotient of overflowing
// exponentials. NaN stays NaN.
#ifndef VKFORMER_ACTIVATION_GLSL
#define VKFORMER_ACTIVATION_GLSL
#include "lib/activation.h"

float sigmoid(float x) {
    const float e = exp(-abs(x));
    return (x >= 0.0 ? 1.0 : e) / (1.0 + e);
}

// (1 − e^−2|x|) / (1 + e^−2|x|) with the sign of x. That difference cancels for small x, where a polynomial stands in: the
// odd series, off by 1.4e-8 relative to the result at its end. ±∞ give ±1.
float hyperbolic_tangent(float x) {
    const float square = x * x;
    if (abs(x) < 0.25)
        return x * (1.0 + square * (-0.33333333 + square * (0.13333333 + square * (-0.053968254 + square * 0.021869489))));
    const float e = exp(-2.0 * abs(x));
    return isnan(x) ? x : sign(x) * (1.0 - e) / (1.0 + e);
}

// Φ(x) = erfc(−x/√2) / 2 with erfc(z) = t · exp(−z² + P(t)), t = 1 / (1 + z/2), z ≥ 0: the form of Press et al., Numerical
// Recipes, 6.2. P is our own Chebyshev fit of ln(erfc(z)/t) + z² on 0 ≤ z ≤ 10.5, off by 5.1e-8 at most; so the relative
// error stays at some 1e-7 in the lower tail too, where (1 + erf(x/√2)) / 2 would cancel.
float normal_distribution(float x) {
    const float t = 1.0 / (1.0 + 0.35355339 * abs(x));
    float p = 0.148791149;
    p = p * t - 0.701847255;
    p = p * t + 1.20616949;
    p = p * t - 0.761984169;
    p = p * t - 0.0259946808;
    p = p * t - 0.0275120921;
    p = p * t + 0.0443623438;
    p = p * t + 0.384606361;
    p = p * t + 0.998868406;
    p = p * t - 1.26545954;
    const float tail = 0.5 * t * exp(-0.5 * x * x + p);
    return x < 0.0 ? tail : 1.0 - tail;
}

float activated(uint activation, float x) {
    if (activation == kActivationRelu) return isnan(x) ? x : max(x, 0.0);
    if (activation == kActivationGeluErf) return x * normal_distribution(x);
    // (1 + tanh(u)) / 2 = sigmoid(2u), u = √(2/π) · (x + 0.044715 x³): Hendrycks and Gimpel 2016
    if (activation == kActivationGeluTanh) return x * sigmoid(1.5957691 * (x + 0.044715 * x * x * x));
    if (activation == kActivationSilu) return x * sigmoid(x);
    if (activation == kActivationTanh) return hyperbolic_tangent(x);
    if (activation == kActivationSigmoid) return sigmoid(x);
    if (activation == kActivationGeluQuick) return x * sigmoid(1.702 * x);  // Hendrycks and Gimpel 2016, section 2
    if (activation == kActivationReluSquared) return isnan(x) ? x : max(x, 0.0) * max(x, 0.0);  // So et al. 2021
    return x;
}
#endif
