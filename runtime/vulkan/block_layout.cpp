// SPDX-License-Identifier: MIT
#include "vulkan/block_layout.hpp"

#include <cassert>
#include <cstring>

namespace vkformer::vulkan {
namespace {

constexpr std::size_t kHalf = 2;

/// Where in a block the lone scale lies; q4_k and q5_k have none.
std::size_t scale_begin(DType dtype) noexcept { return dtype == DType::q6_k ? block_bytes(dtype) - kHalf : 0; }

}  // namespace

std::size_t vector_bytes(DType dtype) noexcept { return block_bytes(dtype) / 16 * 16; }

ArrangedBlocks arrange_blocks(DType dtype, std::span<const std::byte> blocks) {
    const std::size_t bytes = block_bytes(dtype), vectors = vector_bytes(dtype);
    assert(is_quantized(dtype) && blocks.size() % bytes == 0);
    const std::size_t count = blocks.size() / bytes;
    if (bytes == vectors) return {.vectors = {blocks.begin(), blocks.end()}, .scales = {}};

    ArrangedBlocks arranged{.vectors = std::vector<std::byte>(count * vectors),
                            .scales = std::vector<std::byte>((count + 1) / 2 * 2 * kHalf)};
    const std::size_t scale = scale_begin(dtype), rest = scale == 0 ? kHalf : 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::byte* const block = blocks.data() + i * bytes;
        std::memcpy(arranged.vectors.data() + i * vectors, block + rest, vectors);
        std::memcpy(arranged.scales.data() + i * kHalf, block + scale, kHalf);
    }
    return arranged;
}

std::vector<std::byte> gather_blocks(DType dtype, std::span<const std::byte> arranged) {
    const std::size_t bytes = block_bytes(dtype), vectors = vector_bytes(dtype);
    assert(is_quantized(dtype) && arranged.size() % bytes == 0);
    if (bytes == vectors) return {arranged.begin(), arranged.end()};

    const std::size_t count = arranged.size() / bytes, scale = scale_begin(dtype), rest = scale == 0 ? kHalf : 0;
    std::vector<std::byte> blocks(arranged.size());
    for (std::size_t i = 0; i < count; ++i) {
        std::byte* const block = blocks.data() + i * bytes;
        std::memcpy(block + rest, arranged.data() + i * vectors, vectors);
        std::memcpy(block + scale, arranged.data() + count * vectors + i * kHalf, kHalf);
    }
    return blocks;
}

}  // namespace vkformer::vulkan
