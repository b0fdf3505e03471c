// SPDX-License-Identifier: MIT
/// What the kernels of attention and decode_attention have in common.
#pragma once

#include "vulkan/kernels/kernel.hpp"

namespace vkformer::vulkan {

/// Whether attention_direct.comp can and should be tried: the device is a CPU, and rows are whole vectors that it can unroll.
bool direct_attention_fits(std::uint64_t head_dim, std::uint64_t value_dim, const Capabilities& device);

}  // namespace vkformer::vulkan
