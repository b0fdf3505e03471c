// SPDX-License-Identifier: MIT
/// How weights and caches in a block format lie in device memory, so that shaders read whole 16-byte vectors (shaders/lib/dequantize.glsl):
/// first, block by block, the parts of the blocks that are multiples of 16 bytes, in their order in the file; then the rest of the blocks, block
/// by block, 1 to 14 bytes of each (of q4_k and q5_k none): the halves that scale it, and what else is no multiple of 16 bytes. As many
/// bytes as in the file.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/dtype.hpp"

namespace vkformer::vulkan {

struct ArrangedBlocks {
    std::vector<std::byte> vectors;
    std::vector<std::byte> rest;  ///< whole words; empty where a block is all vectors
};

/// Bytes of a block that go to the vectors, and to the rest.
std::size_t vector_bytes(DType dtype) noexcept;
std::size_t rest_bytes(DType dtype) noexcept;

/// Requires is_quantized(dtype), whole blocks.
ArrangedBlocks arrange_blocks(DType dtype, std::span<const std::byte> blocks);

/// The blocks of a tensor that was arranged in one piece: its vectors, then the rest. Requires is_quantized(dtype), arranged.size() the
/// bytes of whole blocks.
std::vector<std::byte> gather_blocks(DType dtype, std::span<const std::byte> arranged);

}  // namespace vkformer::vulkan
