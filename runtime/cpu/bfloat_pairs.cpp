// SPDX-License-Identifier: MIT
#include "cpu/bfloat_pairs.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace vkformer::cpu {
namespace {

constexpr std::size_t half_of(std::size_t count) { return (count + 1) / 2; }

/// pairs[r, i]: neighbours of each row.
void pair_all(const BfloatPairKernels& kernels, std::size_t rows, std::size_t count, Matrix<const float> x,
              float* pairs) {
    for (std::size_t r = 0; r < rows; ++r)
        kernels.pair_neighbours(x.data + r * x.stride, count, pairs + r * half_of(count));
}

}  // namespace

SoftmaxTerms<float> exponentiate_to_bfloats(std::span<float> scores, float least) {
    constexpr float kLog2E = std::numbers::log2e_v<float>, kMostPower = 0x1p20f;
    const FloatKernels& kernels = float_kernels();
    const float most = kernels.max_of(scores.data(), scores.size());
    const float power = std::max(std::nearbyint(least * kLog2E), std::ceil(most * kLog2E));
    if (!(std::abs(power) <= kMostPower)) {  // no score but −∞, or such as no model has
        const SoftmaxTerms<float> terms = exponentiate(scores, least);
        kernels.round_to_bfloats(scores.data(), scores.size());
        return terms;
    }
    const float sum = kernels.exponentiate_to_bfloats(scores.data(), scores.size(), power);
    return {power * std::numbers::ln2_v<float>, sum};
}

PairedProducts::PairedProducts(const BfloatPairKernels& kernels, std::size_t rows, std::size_t together,
                               std::size_t depth, std::span<const float> x)
    : kernels_(kernels),
      rows_(rows),
      together_(together),
      depth_(depth),
      x_(paired_rows(x)),
      queries_(rows, half_of(depth), x_.data(), half_of(depth), 1, kernels.panels) {}

std::vector<float> PairedProducts::paired_rows(std::span<const float> x) const {
    std::vector<float> pairs(rows_ * half_of(depth_));
    pair_all(kernels_, rows_, depth_, {x.data(), depth_}, pairs.data());
    return pairs;
}

void PairedProducts::add_scores(std::size_t keys, Matrix<const float> key, Matrix<float> scores) {
    const std::size_t pairs = half_of(depth_);
    keys_.resize(keys * pairs);
    pair_all(kernels_, keys, depth_, key, keys_.data());
    queries_.add(keys, keys_.data(), pairs, scores.data, scores.stride);
}

void PairedProducts::add_values(std::size_t keys, std::size_t columns, Matrix<const float> weights,
                                Matrix<const float> values, Matrix<float> sums) {
    constexpr std::size_t kColumns = 64;  // whose pairs of 256 keys take 32 KiB
    const std::size_t pairs = half_of(keys);
    weights_.resize(rows_ * pairs);
    pair_all(kernels_, rows_, keys, weights, weights_.data());
    values_.resize(pairs * kColumns);
    const std::vector<float> zeros(keys % 2 * kColumns);
    for (std::size_t column = 0; column < columns; column += kColumns) {
        const std::size_t some = std::min(kColumns, columns - column);
        for (std::size_t i = 0; i < pairs; ++i) {
            const float* const first = values.data + 2 * i * values.stride + column;
            const float* const second = 2 * i + 1 < keys ? first + values.stride : zeros.data();
            kernels_.pair_rows(first, second, some, values_.data() + i * some);
        }
        for (std::size_t row = 0; row < rows_; row += together_) {  // by heads, as FloatProducts
            ProductOperands o{.rows = together_,
                              .columns = some,
                              .depth = pairs,
                              .x = weights_.data() + row * pairs,
                              .x_stride = pairs,
                              .w = values_.data(),
                              .w_stride = some,
                              .y = sums.data + row * sums.stride + column,
                              .y_stride = sums.stride};
            kernels_.panels.add_product(o);
            o.depth = keys;
            o.x = weights.data + row * weights.stride, o.x_stride = weights.stride;
            o.w = values.data + column, o.w_stride = values.stride;
            add_rest_of_product(o);
        }
    }
}

}  // namespace vkformer::cpu
