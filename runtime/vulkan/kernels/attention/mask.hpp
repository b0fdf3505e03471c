// SPDX-License-Identifier: MIT
#pragma once

#include "lib/attention_mask.h"
#include "vulkan/kernels/kernel.hpp"

namespace vkformer::vulkan {

/// The specialization constant MASK of the shaders that include lib/attention_mask.glsl.
std::uint32_t mask_bits(const graph::AttentionMask& mask) noexcept;

/// Their push constants. `key_len` is the number of keys of the scores that the mask is for.
shaders::AttentionMaskPush mask_push(const graph::AttentionMask& mask, std::uint64_t key_len,
                                     const graph::Graph& graph);

}  // namespace vkformer::vulkan
