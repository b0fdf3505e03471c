// SPDX-License-Identifier: MIT
#include "vulkan/shader_module.hpp"

#include <lzma.h>

#include <cstring>
#include <string>

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kMagic = 0x07230203;

Error damaged(const ShaderBinary& shader) {
    return {ErrorCode::CorruptFile, "the shader " + std::string(shader.name) +
                                        " is damaged inside the vkformer library; install the library again"};
}

/// Whether the contents fill the bytes exactly; liblzma checks the CRC.
bool unpack_into(std::span<unsigned char> bytes, std::span<const unsigned char> xz) {
    std::uint64_t memory_limit = std::uint64_t{64} << 20;
    std::size_t read = 0, written = 0;
    return lzma_stream_buffer_decode(&memory_limit, 0, nullptr, xz.data(), &read, xz.size(), bytes.data(), &written,
                                     bytes.size()) == LZMA_OK &&
           read == xz.size() && written == bytes.size();
}

}  // namespace

Result<std::vector<std::uint32_t>> spirv_of(const ShaderBinary& shader) {
    const auto& [xz, length, offset, bytes] = shader.module;
    if (bytes == 0 || bytes % 4 != 0 || std::uint64_t{offset} + bytes > length) return damaged(shader);
    std::vector<unsigned char> contents(length);
    if (!unpack_into(contents, xz)) return damaged(shader);
    std::vector<std::uint32_t> words(bytes / 4);
    std::memcpy(words.data(), contents.data() + offset, bytes);
    if (words[0] != kMagic) return damaged(shader);
    return words;
}

}  // namespace vkformer::vulkan
