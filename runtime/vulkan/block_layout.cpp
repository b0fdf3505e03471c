// SPDX-License-Identifier: MIT
#include "vulkan/block_layout.hpp"

#include <cassert>
#include <cstring>

namespace vkformer::vulkan {
namespace {

/// Where in a block the rest and the vectors begin.
struct Begins {
    std::size_t rest, vectors;
};
Begins begins(DType dtype) noexcept {
    if (dtype == DType::q6_k || dtype == DType::q2_k || dtype == DType::q3_k) return {vector_bytes(dtype), 0};
    return {0, rest_bytes(dtype)};
}

}  // namespace

std::size_t vector_bytes(DType dtype) noexcept { return block_bytes(dtype) / 16 * 16; }
std::size_t rest_bytes(DType dtype) noexcept { return block_bytes(dtype) % 16; }

ArrangedBlocks arrange_blocks(DType dtype, std::span<const std::byte> blocks) {
    const std::size_t bytes = block_bytes(dtype), vectors = vector_bytes(dtype), rest = rest_bytes(dtype);
    assert(is_quantized(dtype) && blocks.size() % bytes == 0);
    const std::size_t count = blocks.size() / bytes;
    if (rest == 0) return {.vectors = {blocks.begin(), blocks.end()}, .rest = {}};

    ArrangedBlocks arranged{.vectors = std::vector<std::byte>(count * vectors),
                            .rest = std::vector<std::byte>((count * rest + 3) / 4 * 4)};
    const Begins begin = begins(dtype);
    for (std::size_t i = 0; i < count; ++i) {
        const std::byte* const block = blocks.data() + i * bytes;
        std::memcpy(arranged.vectors.data() + i * vectors, block + begin.vectors, vectors);
        std::memcpy(arranged.rest.data() + i * rest, block + begin.rest, rest);
    }
    return arranged;
}

std::vector<std::byte> gather_blocks(DType dtype, std::span<const std::byte> arranged) {
    const std::size_t bytes = block_bytes(dtype), vectors = vector_bytes(dtype), rest = rest_bytes(dtype);
    assert(is_quantized(dtype) && arranged.size() % bytes == 0);
    if (rest == 0) return {arranged.begin(), arranged.end()};

    const std::size_t count = arranged.size() / bytes;
    const Begins begin = begins(dtype);
    std::vector<std::byte> blocks(arranged.size());
    for (std::size_t i = 0; i < count; ++i) {
        std::byte* const block = blocks.data() + i * bytes;
        std::memcpy(block + begin.vectors, arranged.data() + i * vectors, vectors);
        std::memcpy(block + begin.rest, arranged.data() + count * vectors + i * rest, rest);
    }
    return blocks;
}

}  // namespace vkformer::vulkan
