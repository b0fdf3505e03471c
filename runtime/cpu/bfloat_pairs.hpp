// SPDX-License-Identifier: MIT
/// Attention of programs whose products round activations to 8 bits: its operands are bfloat16, of which processors multiply two at a time.
///
/// What is rounded does not depend on how many queries come at once, so that a prompt at once, in chunks, and token by token give the same
/// but for the order of sums: keys and values when a cache takes them, queries with their scale, and weights of keys, exp(s − m), with an m
/// that is a multiple of ln 2: another m changes their exponents alone. Where no processor has instructions for pairs, floats hold the same
/// numbers.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cpu/blas.hpp"
#include "cpu/float_product.hpp"
#include "cpu/softmax.hpp"

namespace vkformer::cpu {

/// Pairs of bfloat16 in place of floats, the first in the lower half of a float's bits. Sums are float32; what is no normal number may
/// count as 0.
struct BfloatPairKernels {
    FloatPanelKernels panels;  ///< every "element" of its operands, but for the sums, is a pair
    /// pairs[i] = x[2 i], x[2 i + 1], rounded to the nearest; the last one of an odd count with 0.
    void (*pair_neighbours)(const float* x, std::size_t count, float* pairs);
    /// pairs[i] = first[i], second[i], likewise.
    void (*pair_rows)(const float* first, const float* second, std::size_t count, float* pairs);
};

/// nullptr where the processor has no instructions for it.
const BfloatPairKernels* bfloat_pair_kernels() noexcept;
/// For any processor, which is what the others are tested against.
const BfloatPairKernels& plain_bfloat_pair_kernels() noexcept;

/// Scores become weights, exp(score − m), rounded to bfloat16, where m is a multiple of ln 2, no less than `least`, which is one, too, and
/// than every score. The sum is that of the weights before they are rounded.
SoftmaxTerms<float> exponentiate_to_bfloats(std::span<float> scores, float least);

/// FloatProducts with pairs.
class PairedProducts {
public:
    /// x: [rows, depth]; together: so many rows of weights go through a product at once. Throws std::bad_alloc.
    PairedProducts(const BfloatPairKernels& kernels, std::size_t rows, std::size_t together, std::size_t depth,
                   std::span<const float> x);

    /// scores[rows, keys] += x · keyᵀ. Throws std::bad_alloc.
    void add_scores(std::size_t keys, Matrix<const float> key, Matrix<float> scores);
    /// sums[rows, columns] += weights[rows, keys] · values[keys, columns]. Throws std::bad_alloc.
    void add_values(std::size_t keys, std::size_t columns, Matrix<const float> weights, Matrix<const float> values,
                    Matrix<float> sums);

private:
    std::vector<float> paired_rows(std::span<const float> x) const;

    const BfloatPairKernels& kernels_;
    std::size_t rows_, together_, depth_;
    std::vector<float> x_;  // [rows, pairs]
    SmallFloatProduct queries_;
    std::vector<float> keys_, weights_, values_;
};

}  // namespace vkformer::cpu
