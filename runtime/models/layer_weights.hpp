// SPDX-License-Identifier: MIT
/// The weights that layers of all architectures are made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor_data.hpp"

namespace vkformer::models {

struct RowRange {
    std::uint64_t first, count;
};

/// Where a weight's rows stand in the model's file.
struct Origin {
    std::string tensor;            ///< by its name there; empty: not told
    std::uint64_t rows = 0;        ///< that the tensor has
    std::vector<RowRange> ranges;  ///< the weight's, one behind the other
};

/// What adapters add to a product y = weight · x: up · (s ⊙ (down · x)), where s has the scale of each column's adapter (Hu et al. 2022,
/// "LoRA", section 4.1).
struct LowRank {
    TensorData down;  ///< f32 [columns, in]; weights of one input that are multiplied together have the same
    TensorData up;    ///< f32 [out, columns]
    explicit operator bool() const noexcept { return !down.bytes.empty(); }
};

/// A product's weight [out, in] and bias [out]; bias.bytes is empty where there is none.
struct Projection {
    TensorData weight, bias;
    Origin origin{};
    LowRank adapters{};  ///< none where no adapter has to do with the weight
    explicit operator bool() const noexcept { return !weight.bytes.empty(); }
};

/// A norm's gain and bias [dim]; empty bytes where there is none, and where there is no such norm at all.
struct NormWeights {
    TensorData gain, bias;
    explicit operator bool() const noexcept { return !gain.bytes.empty(); }
};

/// Where the norms of a layer are.
enum class NormPlace : std::uint8_t {
    behind,  ///< norm(x + f(x)): Vaswani et al. 2017, BERT
    before,  ///< x + f(norm(x)): ViT, CLIP, decoders
};

/// The same bytes in memory: two tensors that are tied.
inline bool is_same(const TensorData& a, const TensorData& b) noexcept {
    return a.bytes.data() == b.bytes.data() && a.bytes.size() == b.bytes.size();
}

}  // namespace vkformer::models
