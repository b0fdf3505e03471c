// SPDX-License-Identifier: MIT
/// What the kernels of attention and decode_attention have in common.
#pragma once

#include "vulkan/kernels/kernel.hpp"

namespace vkformer::vulkan {

/// Whether attention_direct.comp can and should be tried: the device is a CPU, and rows are whole vectors that it can unroll.
bool direct_attention_fits(std::uint64_t head_dim, std::uint64_t value_dim, const Capabilities& device);
/// Whether attention_broadcast.comp takes them, too.
bool broadcast_attention_fits(std::uint64_t head_dim, std::uint64_t value_dim, DType keys, const Capabilities& device);
/// Whether that shader with VECTORS does: a head's keys and values are whole vectors.
bool vector_attention_fits(std::uint64_t head_dim, std::uint64_t value_dim, DType keys, const Capabilities& device);
/// How many of the `rows` that share a key head a workgroup of attention_broadcast.comp owns, with VECTORS or without.
std::uint32_t attention_broadcast_rows(std::uint64_t rows, std::uint64_t value_dim, bool by_vectors);
/// Whether attention_quads.comp and decode_attention_quads.comp take the rows of queries, keys and values.
bool rows_are_quads(std::uint64_t head_dim, std::uint64_t value_dim, DType dtype, const Capabilities& device);

/// The form of a shader for such keys and values: "attention" or, of a cache in blocks, "attention_q8".
std::string shader_for_keys(std::string_view shader, DType keys);

}  // namespace vkformer::vulkan
