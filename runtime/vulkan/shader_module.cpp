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

bool reads_grid_size(std::span<const std::uint32_t> words) noexcept {
    // The SPIR-V Specification, sections 2.3 (a header of 5 words, then instructions: length and opcode in one word), 3.20, 3.21.
    constexpr std::size_t kHeader = 5;
    constexpr std::uint32_t kOpDecorate = 71, kDecorationBuiltIn = 11, kBuiltInNumWorkgroups = 24;
    for (std::size_t at = kHeader; at < words.size();) {
        const std::uint32_t length = words[at] >> 16, opcode = words[at] & 0xFFFF;
        if (length == 0) return true;  // no module: nothing is known of it
        if (opcode == kOpDecorate && length == 4 && at + 3 < words.size() && words[at + 2] == kDecorationBuiltIn &&
            words[at + 3] == kBuiltInNumWorkgroups)
            return true;
        at += length;
    }
    return false;
}

}  // namespace vkformer::vulkan
