// SPDX-License-Identifier: MIT
/// What the kernels of attention have in common.
#pragma once

#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

struct AttentionSizes {
    std::uint64_t batch, query_len, heads, kv_heads, head_dim, value_dim;

    /// Queries that share a head of keys.
    std::uint64_t rows() const { return query_len * (heads / kv_heads); }
    std::uint64_t longest_row() const { return head_dim > value_dim ? head_dim : value_dim; }
};

AttentionSizes sizes_of(const graph::Attention& op, const graph::Graph& graph);

/// `blocks` where keys and values are a cache in blocks, else `floats`.
const ShaderFamily& family_for_keys(DType keys, const ShaderFamily& floats, const ShaderFamily& blocks);

/// Rows of queries, keys and values that are read four elements at a time.
bool are_vec4_rows(std::uint64_t head_dim, std::uint64_t value_dim, DType dtype, const Capabilities& device);

/// All but the specialization constants of an algorithm.
Result<Dispatch> dispatch_attention(const graph::Attention& op, Module module, std::uint64_t groups,
                                    const KernelContext& context);

}  // namespace vkformer::vulkan
