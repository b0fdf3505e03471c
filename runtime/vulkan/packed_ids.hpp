// SPDX-License-Identifier: MIT
/// How the ids of SPIR-V modules are written where modules are packed: relative to each other, so that the same code has
/// the same words wherever it stands. shaders/pack/pack_shaders.cpp writes them so when the library is built.
#pragma once

#include <cstdint>
#include <span>

namespace vkformer::vulkan {

/// The upper halves of words that stand for an id; as floats, these words are signalling NaNs. The lower half of a result
/// is the id, or 0 for the one after the result before; that of a reference is how far it lies behind the last result,
/// modulo 2¹⁶.
constexpr std::uint32_t kPackedResult = 0x7FA0;
constexpr std::uint32_t kPackedReference = 0x7FA1;

/// Puts the ids of packed modules in their places; all other words stay. Defined for any words.
constexpr void restore_ids(std::span<std::uint32_t> words) noexcept {
    std::uint32_t last = 0;
    for (std::uint32_t& word : words) {
        const std::uint32_t half = word & 0xFFFF;
        if (word >> 16 == kPackedResult)
            word = last = half == 0 ? last + 1 : half;
        else if (word >> 16 == kPackedReference)
            word = (last + half) & 0xFFFF;
    }
}

}  // namespace vkformer::vulkan
