// SPDX-License-Identifier: MIT
/// What the kernels of decode_attention have in common.
#pragma once

#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

struct DecodeSizes {
    std::uint64_t batch, heads, kv_heads, head_dim, value_dim, key_len, splits;
};

DecodeSizes sizes_of(const graph::DecodeAttention& op, const graph::Graph& graph);

/// All but the specialization constants of an algorithm. `groups`: workgroups per sequence and split.
Result<Dispatch> dispatch_decode_attention(const graph::DecodeAttention& op, Module module, std::uint64_t groups,
                                           const KernelContext& context);

}  // namespace vkformer::vulkan
