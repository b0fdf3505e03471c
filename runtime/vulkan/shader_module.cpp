// SPDX-License-Identifier: MIT
#include "vulkan/shader_module.hpp"

#include <lzma.h>

#include <optional>
#include <string>

#include "vulkan/packed_ids.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kMagic = 0x07230203;

Error damaged(const ShaderBinary& shader) {
    return {ErrorCode::CorruptFile, "the shader " + std::string(shader.name) +
                                        " is damaged inside the vkformer library; install the library again"};
}

/// Nothing where the contents do not fill the words exactly; liblzma checks the CRC.
std::optional<std::vector<std::uint32_t>> unpack(const EmbeddedModule& module) {
    std::vector<std::uint32_t> words(module.contents / 4);
    const std::size_t bytes = words.size() * 4;
    std::uint64_t memory_limit = std::uint64_t{64} << 20;
    std::size_t read = 0, written = 0;
    const lzma_ret result =
        lzma_stream_buffer_decode(&memory_limit, 0, nullptr, module.xz.data(), &read, module.xz.size(),
                                  reinterpret_cast<std::uint8_t*>(words.data()), &written, bytes);
    if (result != LZMA_OK || read != module.xz.size() || written != module.contents) return std::nullopt;
    restore_ids(words);
    return words;
}

}  // namespace

Result<std::span<const std::uint32_t>> ShaderModules::words(const ShaderBinary& shader) {
    const EmbeddedModule& module = shader.module;
    if (module.bytes == 0 || (module.offset | module.bytes) % 4 != 0 ||
        std::uint64_t{module.offset} + module.bytes > module.contents)
        return damaged(shader);
    const std::lock_guard lock(mutex_);
    auto found = contents_.find(module.xz.data());
    if (found == contents_.end()) {
        auto unpacked = unpack(module);
        if (!unpacked) return damaged(shader);
        found = contents_.emplace(module.xz.data(), std::move(*unpacked)).first;
    }
    const auto words = std::span<const std::uint32_t>(found->second).subspan(module.offset / 4, module.bytes / 4);
    if (words[0] != kMagic) return damaged(shader);
    return words;
}

}  // namespace vkformer::vulkan
