// SPDX-License-Identifier: MIT
/// How weights and caches in a block format lie in device memory, so that shaders read whole 16-byte vectors (shaders/lib/dequantize.glsl):
/// first, block by block, the parts of the blocks that are multiples of 16 bytes, in their order in the file; then, where a block
/// has a lone half as its scale (q8_0, q4_0, q6_k), these halves, block by block, two to a word. As many bytes as in the file.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/dtype.hpp"

namespace vkformer::vulkan {

struct ArrangedBlocks {
    std::vector<std::byte> vectors;
    std::vector<std::byte> scales;  ///< whole words; empty where a block has its scales among its vectors
};

/// Bytes of a block that go to the vectors: 32, 16, 144, 176 or 208.
std::size_t vector_bytes(DType dtype) noexcept;

/// Requires is_quantized(dtype), whole blocks.
ArrangedBlocks arrange_blocks(DType dtype, std::span<const std::byte> blocks);

/// The blocks of a tensor that was arranged in one piece: its vectors, then its scales. Requires is_quantized(dtype), arranged.size() the
/// bytes of whole blocks.
std::vector<std::byte> gather_blocks(DType dtype, std::span<const std::byte> arranged);

}  // namespace vkformer::vulkan
