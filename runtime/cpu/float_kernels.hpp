// SPDX-License-Identifier: MIT
/// Products of float32 matrices and functions of their elements on the calling thread. OpenBLAS starts its threads for products as small as
/// those of one head of an attention, and on a busy machine they wait for each other longer than they work.
#pragma once

#include <cstddef>

#include "graph/ops.hpp"

namespace vkformer::cpu {

/// The operands of a product of float32 matrices. x: [rows, depth], w: [columns, depth], y: [rows, columns], by rows `stride` elements apart.
struct ProductOperands {
    std::size_t rows, columns, depth;
    const float* x;
    std::size_t x_stride;
    const float* w;
    std::size_t w_stride;
    float* y;
    std::size_t y_stride;
    float scale = 1;
};

/// A token of a recursion over the matrix of one head: graph::gated_delta_rule, for which query and key are normalised and the query is
/// scaled, or graph::selective_scan, C, B and x.
struct StateStep {
    const float *query, *key, *value;
    std::size_t key_dim, value_dim;
    float alpha, beta;
    float product;  ///< query · key, for correct_state
    float* state;   ///< [key_dim, value_dim]
    float* y;       ///< [value_dim]
};

/// For float32, on the calling thread and without blocks: w is to be in a cache, or x to have few rows.
struct FloatKernels {
    /// y[i] += Σ_j scales[j] · w[j · w_stride + i] for j below `count` and i below `width`
    void (*add_scaled_rows)(const float* scales, std::size_t count, const float* w, std::size_t w_stride,
                            std::size_t width, float* y);
    /// y[i] = f(x[i]), to 1e-6 of it and some units of the largest; y may be x. False: the activation is none of those here (tanh, none).
    bool (*activate)(graph::Activation activation, const float* x, std::size_t count, float* y);
    /// The largest that is a number; −∞ where there is none.
    float (*max_of)(const float* x, std::size_t count);
    /// Replaces scores, none of which is larger than max, by exp(score − max), or by 0 where that is below the least normal number; their
    /// sum. NaN stays NaN.
    float (*exponentiate)(float* scores, std::size_t count, float max);
    /// Replaces scores s by 2^(s / ln 2 − power), or by 0 where that is below the least normal number, rounded to the nearest bfloat16; their
    /// sum before they are rounded, which is NaN where a score is. No s / ln 2 is larger than power, whose magnitude is at most 2^20.
    float (*exponentiate_to_bfloats)(float* scores, std::size_t count, float power);
    /// Replaces x by the nearest bfloat16, of two that are as near by the even one. NaN stays NaN.
    void (*round_to_bfloats)(float* x, std::size_t count);
    /// S ← α S, S ← S + β k (v − Sᵀ k)ᵀ, y = Sᵀ q
    void (*correct_state)(const StateStep& step);
    /// S ← α S + β k vᵀ, y = Sᵀ q
    void (*add_to_state)(const StateStep& step);
};

/// By what the processor can do.
const FloatKernels& float_kernels() noexcept;
/// For processors without wide vectors, which is also what the others are tested against.
const FloatKernels& plain_float_kernels() noexcept;

}  // namespace vkformer::cpu
