// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace vkformer {

inline constexpr std::uint64_t kHashStart = 0xCBF29CE484222325u;

/// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv. Against accidents, not against attackers.
constexpr std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t hash = kHashStart) noexcept {
    for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001B3u;
    return hash;
}

}  // namespace vkformer
