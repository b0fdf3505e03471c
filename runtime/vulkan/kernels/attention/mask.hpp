// SPDX-License-Identifier: MIT
#pragma once

#include "graph/pages.hpp"
#include "lib/attention_mask.h"
#include "vulkan/kernels/kernel.hpp"

namespace vkformer::vulkan {

/// The specialization constant MASK of the shaders that include lib/attention_mask.glsl.
std::uint32_t mask_bits(const graph::AttentionMask& mask) noexcept;

/// That of attention and decode_attention, which say besides how scores are made and where keys are.
template <class Op>
std::uint32_t score_bits(const Op& op) noexcept {
    return mask_bits(op.mask) | (op.soft_cap == 0 ? 0 : shaders::kScoreSoftCap) |
           (op.pages ? shaders::kKeysInPages : 0);
}

/// The rows of keys, and of values, of all sequences or pages.
template <class Op>
std::uint32_t kv_rows(const Op& op, const graph::Graph& graph) {
    const Shape& key = graph.shape(op.key);
    return static_cast<std::uint32_t>(key[0] * key[1]);
}

/// Their push constants. `key_len` is the number of keys of the scores that the mask is for.
shaders::AttentionMaskPush mask_push(const graph::AttentionMask& mask, std::uint64_t key_len,
                                     const graph::Graph& graph);

}  // namespace vkformer::vulkan
