// SPDX-License-Identifier: MIT
/// The weights that layers of all architectures are made of.
#pragma once

#include <cstdint>

#include "core/tensor_data.hpp"

namespace vkformer::models {

/// A product's weight [out, in] and bias [out]; bias.bytes is empty where there is none.
struct Projection {
    TensorData weight, bias;
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
