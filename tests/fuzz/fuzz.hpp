// SPDX-License-Identifier: MIT
/// What the fuzz targets share: each parses one format from bytes that end where their heap block ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "vkformer/result.hpp"

namespace vkformer::fuzz {

/// A claim about what was parsed; libFuzzer reports a failing one.
inline void require(bool claim) {
    if (!claim) std::abort();
}

/// Every error says something.
template <class T>
void require_message(const Result<T>& result) {
    require(static_cast<bool>(result) || !result.error().message.empty());
}

/// Touches every byte, for AddressSanitizer.
inline void touch(std::span<const std::byte> bytes) {
    volatile unsigned sum = 0;
    for (const std::byte byte : bytes) sum = sum + std::to_integer<unsigned>(byte);
}

inline std::shared_ptr<const std::vector<std::byte>> copy_of(const std::uint8_t* data, std::size_t size) {
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    return std::make_shared<const std::vector<std::byte>>(bytes, bytes + size);
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

}  // namespace vkformer::fuzz
