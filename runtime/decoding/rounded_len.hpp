// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace vkformer::decoding {

/// Lengths are rounded up so that a few programs serve all: by at most an eighth from 64 tokens on.
inline std::uint32_t rounded_len(std::size_t longest, std::uint64_t limit) {
    const std::size_t step = std::max<std::size_t>(8, std::bit_ceil(longest) / 16);
    const std::size_t len = (longest + step - 1) / step * step;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(len, limit));
}

}  // namespace vkformer::decoding
